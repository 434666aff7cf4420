"""`python -m lrp_book build | student | refresh [NOTEBOOK]`."""

from lrp_book.build import main

if __name__ == "__main__":
    raise SystemExit(main())
