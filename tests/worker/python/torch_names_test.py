"""The table of names for readers, worker/language/torch_names.md, has the ops whose samples torch_ops_test.py compares, and
no others. Needs no torch: only the names are asked for."""

import pathlib
import sys
import unittest
import unittest.mock

sys.modules["torch"] = unittest.mock.MagicMock()
from ops_families import CALLS, MORE  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


class TorchNames(unittest.TestCase):
    def test_the_table_has_the_ops_with_samples(self):
        lines = (ROOT / "worker" / "language" / "torch_names.md").read_text().splitlines()
        told = [line.split("`")[1] for line in lines if line.startswith("| `")]
        self.assertEqual(sorted(told), sorted([*CALLS, *MORE]))

    def test_every_function_named_is_public(self):
        headers = "".join(path.read_text() for room in ("jagged", "language", "layers")
                          for path in (ROOT / "worker" / room).glob("*.h"))
        for line in (ROOT / "worker" / "language" / "torch_names.md").read_text().splitlines():
            if line.startswith("| `"):
                for name in line.split("|")[2].replace(";", ",").split("`")[1::2]:
                    name = name.split("(")[0]
                    if name.isidentifier():
                        self.assertIn(f" {name}(", headers, line)


if __name__ == "__main__":
    unittest.main()
