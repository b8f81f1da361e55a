"""`python -m bots_service`, also installed as `bots`."""

from bots_service.cli.app import app

if __name__ == "__main__":
    app()
