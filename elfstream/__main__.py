"""`python -m elfstream`: the command line."""

from elfstream.cli import main

main()
