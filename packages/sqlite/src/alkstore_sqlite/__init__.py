"""alkstore-sqlite."""
