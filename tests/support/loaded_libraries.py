"""Prints all modules that are loaded by importing each of some modules, as JSON.

Run by test_startup.py as `python loaded_libraries.py ALLOWED MODULE...`, ALLOWED joined by commas.
Every module is imported in a child of its own, forked from a process that has imported the allowed
libraries already: torch is loaded once and not for each of them.
"""

import importlib
import json
import os
import sys


def loaded(module):
    """Names in sys.modules after a module was imported; none when it cannot be."""
    read, write = os.pipe()
    if os.fork() == 0:
        with os.fdopen(write, "w") as answer:
            importlib.import_module(module)
            json.dump(list(sys.modules), answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        found = answer.read()
    os.wait()
    return json.loads(found or "[]")


def main():
    allowed, *modules = sys.argv[1:]
    for library in filter(None, allowed.split(",")):
        importlib.import_module(library)
    print(json.dumps({module: loaded(module) for module in modules}))


if __name__ == "__main__":
    main()
