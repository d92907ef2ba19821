"""The command line as `python -m colonnade.cli`."""

from colonnade.cli.commands import main

if __name__ == "__main__":
    main()
