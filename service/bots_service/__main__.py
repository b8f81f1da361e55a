"""`python -m bots_service`, also installed as `bots`."""

from bots_service.cli.app import app


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
