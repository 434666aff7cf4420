"""`python -m lrp_companion.bookbuild build | student | refresh`."""

from lrp_companion.bookbuild.build import main

if __name__ == "__main__":
    raise SystemExit(main())
