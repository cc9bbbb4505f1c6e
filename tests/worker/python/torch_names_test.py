"""The table of names for readers, worker/tensor/language/torch_names.md, has the ops whose samples torch_ops_test.py compares, and
no others; the table of what ran (op_samples.md) has them as well; and every public function of the language is told of. Needs
no torch: only the names are asked for."""

import pathlib
import re
import sys
import unittest
import unittest.mock

sys.modules["torch"] = unittest.mock.MagicMock()
from ops_families import CALLS, MORE  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROOMS = ("jagged", "language", "layers")
# Functions of other rooms that the table names.
ELSEWHERE = {"cond", "scan", "while_loop"}


def rows(file):
    """The cells of each row that begins with a name."""
    for line in file.read_text().splitlines():
        if line.startswith("| `"):
            yield [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def quoted(cell):
    return cell.split("`")[1::2]


def functions_of(header):
    """The functions and operators that a header declares in its namespace, but for those of `detail`; not members."""
    header = re.sub(r'"(\\.|[^"\\])*"', '""', re.sub(r"//[^\n]*|#[^\n]*", "", header))
    names, start, at = set(), 0, 0

    def behind_brace(at):
        depth = 0
        while True:
            depth += {"{": 1, "}": -1}.get(header[at], 0)
            at += 1
            if depth == 0:
                return at

    while at < len(header):
        if header[at] not in ";{}":
            at += 1
            continue
        head = " ".join(re.sub(r"\[\[.*?\]\]|template\s*<.*?>\s*(?=\[|\w|struct)", "", header[start:at]).split())
        named = re.search(r"(operator\s*[^\s(\w]+|\b[a-z]\w*)\s*\(", head)
        if header[at] == "{" and named and head.count("(") > head.count(")"):  # braces of a default argument
            at = behind_brace(at)
            continue
        if named and not re.match(r"(struct|class|enum|using|concept|requires)\b", head):
            names.add(named.group(1).removeprefix("operator").strip())
        is_room = head.startswith("namespace") and "detail" not in head
        at = at + 1 if header[at] != "{" or is_room else behind_brace(at)
        start = at
    return names


def public_functions():
    """Of all headers but those whose first comment says what alone they are for."""
    for room in ROOMS:
        headers = sorted((ROOT / "worker" / "tensor" / room).glob("*.h"))
        assert headers, f"there are no headers in {room}"
        for path in headers:
            text = path.read_text()
            comment = " ".join(line.removeprefix("//") for line in text[:text.index("#pragma once")].splitlines())
            if not re.search(r" only\.\s*$", comment):
                yield path.name, functions_of(text)


class TorchNames(unittest.TestCase):
    names = ROOT / "worker" / "tensor" / "language" / "torch_names.md"

    def test_the_table_has_the_ops_with_samples(self):
        told = [quoted(cells[0])[0] for cells in rows(self.names) if len(cells) == 3]
        self.assertEqual(sorted(told), sorted([*CALLS, *MORE]))

    def test_every_public_function_is_in_a_table(self):
        told = set()
        for cells in rows(self.names):
            told |= {name.split("(")[0] for name in quoted(cells[1] if len(cells) == 3 else cells[0])}
            if len(cells) == 2:
                self.assertTrue(cells[1], f"no reason beside {cells[0]}")
        for header, functions in public_functions():
            self.assertEqual(functions - told, set(), f"{header} has functions that torch_names.md does not tell of")

    def test_every_function_named_is_public(self):
        public = set().union(ELSEWHERE, *(functions for _, functions in public_functions()))
        for cells in rows(self.names):
            for name in quoted(cells[1] if len(cells) == 3 else cells[0]):
                if name.split("(")[0].isidentifier() and name != "SymFloat(x)":
                    self.assertIn(name.split("(")[0], public, cells)

    def test_functions_of_a_header(self):
        self.assertEqual(functions_of("""
            #pragma once
            namespace lockstep::worker {
            struct Options { int member(int x); Dims kernel{1}; };
            /// words(of a comment)
            [[nodiscard]] Tensor first(const Tensor& x, const Dims& dims = {},
                                       Line where = Line::current());
            template <int = 0>
            [[nodiscard]] Tensor operator+(const TensorOperand& a, const TensorOperand& b) {
              return elementwise(Op::Add, a, b);
            }
            inline AtMost second(SymInt bound) { return {std::move(bound)}; }
            namespace detail { void hidden(int x); }
            void third();
            }
            """), {"first", "+", "second", "third"})


if __name__ == "__main__":
    unittest.main()
