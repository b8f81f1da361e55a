"""What charts of a run are made of."""

from bots_client._call import Call, path
from bots_client._chart_models import Calibration, Curve, Outlooks
from bots_client._decode import into


def curve(dataset: str, run: str = "default", *, points: int | None = None) -> Call[Curve]:
    """Give a run's history in few points, each of them some steps taken together.

    Args:
        dataset: the pool.
        run: whose history.
        points: at most so many, 1 to 2,000; None: 500.
    """
    where = path("datasets", dataset, "runs", run, "curve")
    return Call("GET", where, into(Curve), params=() if points is None else (("points", str(points)),))


def calibration(dataset: str, run: str = "default", *, steps: int | None = None) -> Call[Calibration]:
    """Compare the success rates predicted before the last steps with those reported, by tenths of the prediction.

    Args:
        dataset: the pool.
        run: whose predictions.
        steps: of so many of the last steps, 1 to 1,000; None: 200.
    """
    where = path("datasets", dataset, "runs", run, "calibration")
    return Call("GET", where, into(Calibration), params=() if steps is None else (("steps", str(steps)),))


def outlooks(dataset: str, run: str = "default", *, points: int | None = None) -> Call[Outlooks]:
    """Give what the service expected of the pool as training went on; the newest is always among it.

    Args:
        dataset: the pool.
        run: by whose belief.
        points: at most so many, 1 to 2,000; None: 200.
    """
    where = path("datasets", dataset, "runs", run, "outlooks")
    return Call("GET", where, into(Outlooks), params=() if points is None else (("points", str(points)),))
