"""`python -m rescind`: becomes the program that this package has installed."""

import os
import signal
import subprocess
import sys
import sysconfig


def find():
    name = "rescind.exe" if os.name == "nt" else "rescind"
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user")),
        # Of `pip install --target`, and of `--prefix`.
        os.path.join(above, "bin"),
        os.path.normpath(os.path.join(above, "..", "..", "..", "bin")),
    ]
    for folder in folders:
        program = os.path.join(folder, name)
        if os.path.isfile(program):
            return program
    print(f"rescind: {name} is in none of {', '.join(folders)}: install the package again", file=sys.stderr)
    sys.exit(127)


def main():
    program, arguments = find(), sys.argv[1:]
    if os.name != "nt":
        # Python ignores these two, and who is started would ignore them, too.
        for name in ("SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.execv(program, ["rescind", *arguments])
    # Windows has no such call. A console sends what is typed to the program, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(subprocess.run([program, *arguments]).returncode)


main()
