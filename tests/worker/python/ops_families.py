"""All families of op samples (ops_call.py): what samples of each of torch's ops are, by its name."""

import ops_basics
import ops_control
import ops_creation
import ops_elementwise
import ops_index
import ops_jagged
import ops_layers
import ops_operators
import ops_order
import ops_random
import ops_windows

FAMILIES = (ops_basics, ops_control, ops_creation, ops_elementwise, ops_index, ops_jagged, ops_layers, ops_operators,
            ops_order, ops_random, ops_windows)
CALLS = {name: call for family in FAMILIES for name, call in family.CALLS.items()}
MORE = {name: samples for family in FAMILIES for name, samples in getattr(family, "MORE", {}).items()}
