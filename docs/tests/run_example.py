"""Run the blocks of one example, given as JSON on standard input, as the main module.

A block may await at top level. All blocks share one namespace and one event loop.
"""

import ast
import asyncio
import inspect
import json
import sys
import types


def main() -> None:
    """Compile each block so that a traceback names the page and the line it stands on."""
    example = json.load(sys.stdin)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    with asyncio.Runner() as runner:
        for line, source in example["blocks"]:
            code = compile(
                "\n" * (line - 1) + source,
                example["page"],
                "exec",
                flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            )
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(eval(code, module.__dict__))
            else:
                exec(code, module.__dict__)


if __name__ == "__main__":
    main()
