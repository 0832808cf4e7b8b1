"""`python -m rescind`: becomes the program that this package has installed."""

import os
import signal
import sys

NAME = "rescind.exe" if os.name == "nt" else "rescind"


def folders():
    """Where pip puts scripts, seen from here: with --target, and in an environment, a prefix or a user's folder."""
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for path in ("bin", "../../../bin", "../../Scripts", "../Scripts"):
        yield os.path.normpath(os.path.join(above, path))
    # Takes as long to load as all else here.
    import sysconfig

    yield sysconfig.get_path("scripts")


def find():
    for folder in folders():
        program = os.path.join(folder, NAME)
        if os.path.isfile(program):
            return program
    print(f"rescind: {NAME} is in none of {', '.join(folders())}: install the package again", file=sys.stderr)
    sys.exit(127)


def main():
    program, arguments = find(), sys.argv[1:]
    if os.name != "nt":
        # Python ignores these two, and what is started would ignore them, too.
        for name in ("SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.execv(program, ["rescind", *arguments])
    import subprocess

    # Windows has no such call. A console sends what is typed to the program, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(subprocess.run([program, *arguments]).returncode)


main()
