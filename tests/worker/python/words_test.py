"""lockstep.agree() and agree_ahead() under mpirun, with any number of ranks. usage: words_test.py FOLDER_OF_PACKAGE"""

import unittest

from test_ranks import GROUP, LAST, RANK, SIZE, run_tests

import lockstep  # the one that test_ranks has found
import numpy


class Words(unittest.TestCase):
    def test_each_op_has_its_words(self):
        agreed = lockstep.agree("all", group=GROUP, min=RANK, max=[RANK, -RANK], sum=1, bitand=6 if RANK else 3, bitor=(1 << RANK,))
        self.assertEqual(agreed, (0, [SIZE - 1, 0], SIZE, 2 if SIZE > 1 else 3, [2 ** SIZE - 1]))
        self.assertIs(lockstep.agree(group=GROUP, all=True), True)
        self.assertIs(lockstep.agree(group=GROUP, all=RANK), False)
        self.assertEqual(lockstep.agree(group=GROUP, any=[LAST, ""]), [True, False])
        self.assertEqual(lockstep.agree(group=GROUP, argmin=-RANK), (1 - SIZE, SIZE - 1))
        self.assertEqual(lockstep.agree(group=GROUP, argmax=[7, -RANK]), [(7, 0), (0, 0)])
        self.assertEqual(lockstep.agree(group=GROUP, equal=numpy.int64(2 ** 40)), 2 ** 40)

    def test_a_wrapper_says_where_its_caller_is(self):
        if SIZE == 1:
            return
        with self.assertRaisesRegex(lockstep.ConstantMismatch, "agree\\(\\) on rows.* at engine.py:7, where they"):
            lockstep.agree("rows", group=GROUP, equal=RANK, where="engine.py:7")
        with self.assertRaisesRegex(lockstep.ConstantMismatch, "agree\\(\\) on engine.py:8"):
            lockstep.agree_ahead(group=GROUP, equal=RANK, where="engine.py:8").result()

    def test_words_that_are_none_are_this_ranks_error(self):
        with self.assertRaisesRegex(TypeError, r"agree\(argmin=2.5\): a word is a whole number, such as nanoseconds"):
            lockstep.agree(group=GROUP, argmin=2.5)
        with self.assertRaisesRegex(TypeError, "agree\\(\\) has no op 'maximum'; the ops are min, max"):
            lockstep.agree(group=GROUP, maximum=2)
        with self.assertRaises(OverflowError):
            lockstep.agree(group=GROUP, max=2 ** 63)

    def test_too_many_words_are_the_error_of_all(self):
        with self.assertRaisesRegex(lockstep.BadInput, "[09] words; give 1 to 8"):
            lockstep.agree("many", group=GROUP, max=[1] * 9 if RANK % 2 == 0 else [])
        with self.assertRaisesRegex(lockstep.BadInput, "0 words; give 1 to 8"):
            lockstep.agree("none", group=GROUP)
        self.assertEqual(lockstep.agree(group=GROUP, max=list(range(8))), list(range(8)))

    def test_ranks_that_come_from_other_lines_are_named_with_both(self):
        if SIZE == 1:
            return
        with self.assertRaises(lockstep.FrameMismatch) as error:
            if LAST:
                lockstep.agree(group=GROUP, max=1)
            else:
                lockstep.agree(group=GROUP, max=1)
        lines = [value for _, value in error.exception.ranks]
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertRegex(line, r"^agree\(\) on words_test.py:\d+(, epoch \d+)?$")
        with self.assertRaisesRegex(lockstep.ConstantMismatch, r"agree\(\) on rows.* at words_test.py:\d+, where they"):
            lockstep.agree("rows", group=GROUP, equal=[3, RANK])
        with self.assertRaisesRegex(lockstep.FrameMismatch, "agree on rows by different ops"):
            lockstep.agree("rows", group=GROUP, **{"min" if LAST else "max": 1})

    def test_words_ahead_come_to_the_same(self):
        for step in range(20):
            mine = (7 * step + 3 * RANK) % 11
            ahead = lockstep.agree_ahead("step", group=GROUP, max=mine, argmin=[mine, -mine])
            with self.assertRaisesRegex(lockstep.BadInput, "agree\\(\\) on step is ahead; take it"):
                lockstep.agree_ahead(group=GROUP, max=1)
            with self.assertRaisesRegex(lockstep.BadInput, "take it"):  # the refusal of each rank is heard by all
                GROUP.settle()
            for _ in range(10 * (RANK + 1)):
                GROUP.poke()
            plain = lockstep.agree("plain", group=GROUP, max=mine, argmin=[mine, -mine])
            self.assertEqual(ahead.result(deadline=20), plain)

    def test_without_a_group_the_one_opened_first_agrees(self):
        self.assertEqual(lockstep.agree(sum=1), SIZE)
        with lockstep.Group(alone=True):
            self.assertEqual(lockstep.agree_ahead(sum=1).result(), SIZE)


if __name__ == "__main__":
    run_tests()
