/* Words from a C program, under mpirun with any number of ranks. */
#include "calls.h"

static const int32_t kMax[] = {LOCKSTEP_OP_MAX};

static void each_op_has_its_word(void) {
  const int32_t ops[] = {LOCKSTEP_OP_MIN, LOCKSTEP_OP_MAX, LOCKSTEP_OP_SUM,   LOCKSTEP_OP_BITAND,
                         LOCKSTEP_OP_ALL, LOCKSTEP_OP_ANY, LOCKSTEP_OP_EQUAL, LOCKSTEP_OP_ARGMIN};
  int64_t words[8];
  int32_t ranks[8];
  const int64_t wanted[] = {-size + 1, 7, size, size == 1 ? -1 : 6, 0, 1, 42, -size + 1};
  int i;
  words[0] = words[7] = -rank, words[1] = last() ? 7 : rank - 9, words[2] = 1;
  words[3] = last() ? -1 : 6, words[4] = !last(), words[5] = last(), words[6] = 42;
  CHECK(!lockstep_agree_words(group, "all of them", words, 8, ops, 0, "capi.c:1", ranks));
  for (i = 0; i < 8; ++i) CHECK(words[i] == wanted[i] && ranks[i] == (i == 7 ? size - 1 : -1));
  ranks[0] = 5;
  words[0] = 3 * rank + 1;
  {
    const int32_t or_most[] = {LOCKSTEP_OP_BITOR, LOCKSTEP_OP_ARGMAX};
    words[0] = 1 << rank, words[1] = 3;
    CHECK(!lockstep_agree_words(group, "or", words, 2, or_most, 5.0, NULL, ranks));
    CHECK(words[0] == (1 << size) - 1 && words[1] == 3 && ranks[0] == -1 && ranks[1] == 0);
  }
}

static void wrong_arguments_are_the_error_of_all(void) {
  int64_t words[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  int32_t ops[9] = {0};
  const char* wrong[] = {"name is NULL", "words is NULL", "ops is NULL", "0 words; give 1 to 8",
                         "9 words; give 1 to 8", "the op of word 1 is 10", "the op of word 1 is -1",
                         "deadline_seconds is -1"};
  int i;
  for (i = 0; i < 8; ++i) {
    const int bad = last() ? i : -1;
    ops[1] = bad == 5 ? 10 : bad == 6 ? -1 : 0;
    CHECK_FAILS(lockstep_agree_words(group, bad == 0 ? NULL : "w", bad == 1 ? NULL : words,
                                     bad == 3   ? 0
                                     : bad == 4 ? 9
                                                : 2,
                                     bad == 2 ? NULL : ops, bad == 7 ? -1 : 0, "capi.c:2", NULL),
                LOCKSTEP_BAD_INPUT, wrong[i]);
    CHECK(words[0] == 1 && words[1] == 2);
  }
  CHECK_FAILS(lockstep_agree_words(NULL, "w", words, 1, kMax, 0, NULL, NULL), LOCKSTEP_BAD_INPUT,
              "group is NULL");
  ops[1] = 0;
  CHECK(!lockstep_agree_words(group, "w", words, 2, ops, 0, NULL, NULL));
}

static void ranks_that_differ_are_named_with_their_lines(void) {
  int64_t word = 1;
  const int32_t equal[] = {LOCKSTEP_OP_EQUAL};
  if (size == 1) return;
  CHECK_FAILS(lockstep_agree_words(group, last() ? "kernel" : "batch", &word, 1, kMax, 0,
                                   last() ? "tune.c:7" : "serve.c:41", NULL),
              LOCKSTEP_FRAME_MISMATCH, "agree() on batch at serve.c:41; rank");
  CHECK(strstr(lockstep_report_text(lockstep_last_error()), "agree() on kernel at tune.c:7"));
  CHECK_FAILS(lockstep_agree_words(group, "batch", &word, 1, last() ? equal : kMax, 0, NULL, NULL),
              LOCKSTEP_FRAME_MISMATCH, "agree on batch by different ops");
  CHECK_FAILS(last() ? lockstep_settle(group)
                     : lockstep_agree_words(group, "batch", &word, 1, kMax, 0, "serve.c:43", NULL),
              LOCKSTEP_FRAME_MISMATCH, "agree() on batch at serve.c:43");
  word = last() ? 16 : 8;
  CHECK_FAILS(lockstep_agree_words(group, "tile", &word, 1, equal, 0, "tune.c:9", NULL),
              LOCKSTEP_CONSTANT_MISMATCH, "agree() on tile at tune.c:9");
  CHECK(lockstep_report_rows(lockstep_last_error()) == 2);
  CHECK(strcmp(lockstep_report_value(lockstep_last_error(), 1), "16") == 0);
  CHECK(word == (last() ? 16 : 8));
  if (last()) CHECK(!lockstep_trouble(group, LOCKSTEP_RUNTIME_ASSERT, "no memory"));
  CHECK_FAILS(lockstep_agree_words(group, "batch", &word, 1, kMax, 0, NULL, NULL),
              LOCKSTEP_RUNTIME_ASSERT, "no memory");
  CHECK(!lockstep_agree_words(group, "batch", &word, 1, kMax, 0, NULL, NULL) && word == 16);
}

static void words_ahead_come_to_the_same(void) {
  int step, i, result;
  for (step = 0; step < 50; ++step) {
    const int64_t mine = (7 * step + 3 * rank) % 11;
    int64_t ahead = mine, plain = mine, other = 1;
    CHECK(!lockstep_agree_words_ahead(group, "ahead", &ahead, 1, kMax, "serve.c:50"));
    CHECK_FAILS(lockstep_agree_words_ahead(group, "two", &ahead, 1, kMax, NULL), LOCKSTEP_BAD_INPUT,
                "agree() on ahead is ahead; take it");
    if (step % 5 == 0) {
      /* What was refused is the error of all in the next round. */
      CHECK_FAILS(lockstep_settle(group), LOCKSTEP_BAD_INPUT, "agree() on ahead is ahead; take it");
    } else {
      CHECK_FAILS(lockstep_agree_words(group, "plain", &plain, 1, kMax, 0, NULL, NULL),
                  LOCKSTEP_BAD_INPUT, "take it");
    }
    for (i = 0; i < 50 * (rank + 1); ++i) CHECK(!lockstep_poke(group));
    if (step % 3 == 0) CHECK(!lockstep_vote_all(group, 1, &result) && result);
    CHECK(!lockstep_agree_words(group, "plain", &plain, 1, kMax, 0, NULL, NULL));
    CHECK(!lockstep_agree_words(group, "ahead", &ahead, 1, kMax, 0, "serve.c:51", NULL));
    CHECK(ahead == plain && !lockstep_agree_words(group, "other", &other, 1, kMax, 0, NULL, NULL));
  }
}

int main(int argc, char** argv) {
  open_group(argc, argv);
  each_op_has_its_word();
  wrong_arguments_are_the_error_of_all();
  ranks_that_differ_are_named_with_their_lines();
  words_ahead_come_to_the_same();
  alone(each_op_has_its_word);
  alone(words_ahead_come_to_the_same);
  CHECK(!lockstep_finish(group));
  lockstep_group_close(group);
  say_well("capi_words_test");
  return 0;
}
