"""The program `rescind`, which this package has put beside Python's own scripts."""
