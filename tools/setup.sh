#!/bin/sh
# Finds a Python this project runs on and hands over to tools/setup.py with the same arguments.
# Called by the Makefile before anything else, so it may count on nothing but a POSIX shell.
set -eu

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    if is_new_enough "$PYTHON"; then
        exec "$PYTHON" "$(dirname "$0")/setup.py" "$@"
    fi
    echo "setup: PYTHON=$PYTHON does not run, or is older than Python 3.11." >&2
    echo "setup: Name one that is 3.11 or newer, or leave PYTHON unset." >&2
    exit 1
fi

for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if is_new_enough "$candidate"; then
        exec "$candidate" "$(dirname "$0")/setup.py" "$@"
    fi
done

echo "setup: no Python >= 3.11 found: tried python3 and python3.11 to python3.14." >&2
echo "setup: On Debian 12 or newer: apt-get install python3 (as root)." >&2
echo "setup: Elsewhere install one and name it: make <target> PYTHON=/path/to/python3" >&2
exit 1
