"""All studies, in the order in which they are made and listed."""

from studies.beliefs import BELIEFS
from studies.first import FIRST
from studies.methods import METHODS
from studies.probes import PROBED
from studies.references import REFERENCES
from studies.rewards import REWARDS
from studies.settings import SETTINGS
from studies.sizes import SIZES
from studies.study import Study

STUDIES: dict[str, Study] = {
    study.name: study for study in (BELIEFS, METHODS, SETTINGS, REFERENCES, FIRST, PROBED, SIZES, REWARDS)
}
