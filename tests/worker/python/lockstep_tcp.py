"""One of several Python processes that meet over TCP: for lockstep_tcp_test. usage: lockstep_tcp.py FOLDER"""

import sys

sys.path.insert(0, sys.argv[1])
import lockstep  # noqa: E402


class Rows:
    def __init__(self, rows):
        self.shape, self.dtype = (rows, 4), "float32"


with lockstep.Group(deadline=20) as group:
    assert group.any(group.rank == group.size - 1) and not group.all(group.rank == 0)
    agreement = lockstep.Agreement(group)
    said = []
    for call in range(4):
        seen = lockstep.Observation(x=Rows(8 if call == 0 else 3 + group.rank + call))
        agreed = agreement.agree("step", seen, lambda entry, decision: f"version {entry}: {decision}")
        said.append(f"{'builds' if agreed.is_new else 'runs'} {agreed.entry}")
    print(f"{group.size} ranks: {', '.join(said)}", flush=True)
