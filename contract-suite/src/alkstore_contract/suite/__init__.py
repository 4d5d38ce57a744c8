"""The properties, one module for each mechanism."""
