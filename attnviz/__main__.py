"""`python -m attnviz` is the command attnviz."""

from attnviz.command import main

if __name__ == "__main__":
    main()
