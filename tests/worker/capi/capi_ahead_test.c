/* Prefetch, resync and guards from a C program, under mpirun with any number of ranks. */
#include "calls.h"

/* As many rows as make versions of all kinds: equal ones, jagged ones, none. */
static int64_t rows_of(int call) { return call < 2 ? 12 : (3 * rank + 5 * call) % 6; }

static void prefetched_calls_come_to_the_same(void) {
  lockstep_agreement *plain = NULL, *ahead = NULL, *other = NULL;
  lockstep_observation* seen = make_observation();
  struct builds builds = {0, -1, 0, "", ""}, builds_ahead = builds, others = builds;
  int call, i, entry = -1, again = -2, is_new = -1, is_new_again = -2, result = 0;
  lockstep_config config = LOCKSTEP_CONFIG_INIT;
  config.recompile_limit = 1;
  CHECK(!lockstep_agreement_create(group, "plain", NULL, &plain));
  CHECK(!lockstep_agreement_create(group, "ahead", NULL, &ahead));
  CHECK(!lockstep_agreement_create(group, "other", &config, &other));
  for (call = 0; call < 12; ++call) {
    if (call == 0) {
      set(seen, rows_of(call), 1, 3);
      CHECK(!lockstep_prefetch(ahead, "step", seen));
    }
    /* The call after this one, and one of another agreement with other settings. */
    set(seen, rows_of(call + 1), 1, 3);
    CHECK(!lockstep_prefetch(ahead, "step", seen));
    set(seen, 8, call % 2, 3);
    CHECK(!lockstep_prefetch(other, "evaluate", seen));
    for (i = 0; i < 100 * (rank + 1); ++i) CHECK(!lockstep_poke(group));
    if (call == 5) {
      CHECK(!lockstep_settle(group));
      CHECK(!lockstep_vote_any(group, last(), &result) && result == 1);
    }
    set(seen, rows_of(call), 1, 3);
    CHECK(!lockstep_agree(ahead, "step", seen, build, &builds_ahead, &entry, &is_new, NULL));
    CHECK(!lockstep_agree(plain, "step", seen, build, &builds, &again, &is_new_again, NULL));
    CHECK(entry == again && is_new == is_new_again);
    set(seen, 8, call % 2, 3);
    CHECK(!lockstep_agree(other, "evaluate", seen, build, &others, &entry, NULL, NULL));
    CHECK(entry == (call % 2 == 0 ? 0 : -1));
  }
  CHECK(builds_ahead.count >= 2 && builds_ahead.count == builds.count && others.count == 1);
  CHECK(strcmp(builds_ahead.text, builds.text) == 0);
  /* A promise is left over, here and at the end of the job. */
  lockstep_agreement_free(ahead);
  set(seen, 8, 0, 3);
  CHECK(!lockstep_prefetch(other, "evaluate", seen));
  CHECK(!lockstep_agree(plain, "step", seen, build, &builds, &entry, NULL, NULL));
  CHECK(!lockstep_agree(other, "evaluate", seen, build, &builds, &entry, NULL, NULL));
  lockstep_agreement_free(plain);
  lockstep_agreement_free(other);
  lockstep_observation_free(seen);
}

static void a_broken_prefetch_is_every_ranks_error_where_a_version_is_built(void) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  struct builds builds = {0, -1, 0, "", ""};
  int entry = -1;
  CHECK(!lockstep_agreement_create(group, "broken", NULL, &agreement));
  set(seen, 8, 1, 3);
  CHECK(!lockstep_prefetch(agreement, "step", seen));
  set(seen, last() ? 9 : 8, 1, 3);
  CHECK_FAILS(lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL),
              LOCKSTEP_BAD_INPUT,
              "step was prefetched with tokens.size(0): 8, but is called with 9");
  CHECK(lockstep_exit_code(LOCKSTEP_BAD_INPUT) == 2);
  set(seen, 8, 1, 3);
  CHECK(!lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL) && entry == 0);
  /* A wrong argument on one rank: an error there at once, and of the call on all. */
  if (last()) {
    CHECK_FAILS(lockstep_prefetch(agreement, "step", NULL), LOCKSTEP_BAD_INPUT,
                "observation is NULL");
  } else {
    CHECK(!lockstep_prefetch(agreement, "step", seen));
  }
  CHECK_FAILS(lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL),
              LOCKSTEP_BAD_INPUT, "observation is NULL");
  /* Trouble that comes up while a vote is out waits for the next round. */
  CHECK(!lockstep_prefetch(agreement, "step", seen));
  if (last()) CHECK(!lockstep_trouble(group, LOCKSTEP_RUNTIME_ASSERT, "the loss is not a number"));
  CHECK(!lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL) && entry == 0);
  CHECK_FAILS(lockstep_settle(group), LOCKSTEP_RUNTIME_ASSERT, "the loss is not a number");
  CHECK(!lockstep_settle(group));
  lockstep_agreement_free(agreement);
  lockstep_observation_free(seen);
}

static void resync_brings_ranks_into_step(void) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  struct builds builds = {0, -1, 0, "", ""};
  int entry = -1, round;
  CHECK(!lockstep_agreement_create(group, "resync", NULL, &agreement));
  set(seen, 8, 1, 3);
  CHECK(!lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL));
  for (round = 0; round < 2; ++round) {
    /* Only one rank has committed to a call; the ranks have counted differently from then on. */
    if (last()) CHECK(!lockstep_prefetch(agreement, "evaluate", seen));
    if (size > 1) {
      CHECK_FAILS(lockstep_settle(group), LOCKSTEP_FRAME_MISMATCH, "of evaluate in group resync");
      CHECK_FAILS(lockstep_settle(group), LOCKSTEP_FRAME_MISMATCH, "settle");
    }
    CHECK(!lockstep_resync(group));
    CHECK(!lockstep_settle(group));
    CHECK(!lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL));
    CHECK(entry == 0 && builds.count == 1);
  }
  /* One rank alone has failed: the others hear it where they are, and come. */
  if (last()) {
    CHECK(!lockstep_trouble(group, LOCKSTEP_RUNTIME_ASSERT, "no rows"));
  } else {
    CHECK_FAILS(lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL),
                LOCKSTEP_RUNTIME_ASSERT, "no rows");
  }
  CHECK(!lockstep_resync(group));
  CHECK(!lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL));
  CHECK(entry == 0 && builds.count == 1);
  /* Without a reason both sides learn where the other is. */
  if (size > 1) {
    CHECK_FAILS(last()
                    ? lockstep_resync(group)
                    : lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL),
                LOCKSTEP_FRAME_MISMATCH, "resync");
    CHECK(!lockstep_resync(group));
  }
  lockstep_agreement_free(agreement);
  lockstep_observation_free(seen);
}

struct guarded_build {
  const char* guard[2];
  int count;
  int code; /* of the last guard */
};

static int build_guarded(void* context, int entry, const lockstep_decision* decision,
                         lockstep_fingerprint* program, lockstep_built* built) {
  struct guarded_build* with = context;
  int i;
  (void)entry, (void)program;
  ++with->count;
  if (lockstep_decision_symbols(decision) == 0) return 0;
  for (i = 0; i < 2; ++i)
    if (with->guard[i] != NULL)
      with->code = lockstep_build_guard(built, with->guard[i], i == 0 ? "kernel.c:41" : NULL);
  return 0;
}

struct shared_build {
  char mine[8];     /* of rank 0 */
  size_t got, kept; /* bytes */
  char first;       /* of those shared */
  int codes[4];
  int leaves_out; /* this rank does not share */
};

static int build_shared(void* context, int entry, const lockstep_decision* decision,
                        lockstep_fingerprint* program, lockstep_built* built) {
  struct shared_build* with = context;
  const lockstep_fingerprint of = lockstep_fingerprint_of(with->mine, 1);
  const void* bytes = NULL;
  (void)entry, (void)decision, (void)program;
  with->codes[0] = lockstep_build_kept(built, of, &bytes, &with->kept);
  if (with->leaves_out == 2) {
    lockstep_build_failed(built, LOCKSTEP_COMPILE_ERROR, "no compiler here");
    return 1;
  }
  if (with->leaves_out) return 0;
  with->codes[1] = lockstep_build_share(built, of, rank == 0 ? with->mine : NULL,
                                        sizeof(with->mine), &bytes, &with->got);
  with->first = bytes == NULL ? 0 : *(const char*)bytes;
  with->codes[2] = lockstep_build_share(built, of, NULL, 0, &bytes, &with->kept);
  if (with->codes[2] == LOCKSTEP_OK) CHECK(bytes == NULL && with->kept == 0);
  with->codes[3] = lockstep_build_kept(built, of, &bytes, &with->kept);
  return 0;
}

static void what_one_rank_builds_all_have(void) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  struct shared_build with = {"shared", 0, 0, 0, {-1, -1, -1, -1}, 0};
  int entry = -1, is_new = -1, i;
  size_t bytes = 0;
  const void* none = NULL;
  CHECK(!lockstep_agreement_create(group, "shared", NULL, &agreement));
#define AGREE lockstep_agree(agreement, "step", seen, build_shared, &with, &entry, &is_new, NULL)
  set(seen, 4, 1, 3);
  CHECK(!AGREE && is_new && entry == 0);
  for (i = 0; i < 4; ++i) CHECK(with.codes[i] == LOCKSTEP_OK);
  CHECK(with.got == sizeof(with.mine) && with.first == 's' && with.kept == sizeof(with.mine));
  CHECK_FAILS(lockstep_build_kept(NULL, lockstep_fingerprint_of("", 0), &none, &bytes),
              LOCKSTEP_BAD_INPUT, "built, bytes or size is NULL");
  if (size > 1) { /* A rank that does not share is told by the round that it is in. */
    with.leaves_out = last();
    set(seen, 5, 0, 3);
    CHECK(AGREE == LOCKSTEP_FRAME_MISMATCH);
    for (i = 0; i < 2; ++i) { /* One that fails before it: all have its error, and are in step. */
      with.leaves_out = rank == (i == 0 ? 0 : size - 1) ? 2 : 0;
      CHECK(AGREE == LOCKSTEP_COMPILE_ERROR);
      CHECK(strstr(lockstep_report_text(lockstep_last_error()), "no compiler here") != NULL);
    }
    with.leaves_out = 0;
  }
  set(seen, 6, 1, 3);
  CHECK(!AGREE && is_new && with.got == sizeof(with.mine));
#undef AGREE
  lockstep_agreement_free(agreement);
  lockstep_observation_free(seen);
}

static void a_version_fits_only_where_its_guards_hold(void) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  struct guarded_build with = {{"tokens.size(0) % 4 == 0", "n * 16 >= tokens.size(1)"}, 0, -1};
  int entry = -1, is_new = -1;
  CHECK(!lockstep_agreement_create(group, "guards", NULL, &agreement));
#define AGREE lockstep_agree(agreement, "step", seen, build_guarded, &with, &entry, &is_new, NULL)
  set(seen, 8, 1, 3);
  CHECK(!AGREE && entry == 0 && with.count == 1); /* static: there is nothing to guard */
  set(seen, 4 * (2 + rank), 1, 3);
  if (size == 1) set(seen, 12, 1, 3);
  CHECK(!AGREE && entry == 1 && is_new && with.count == 2 && with.code == LOCKSTEP_OK);
  set(seen, 4 * (9 - rank), 1, 3);
  CHECK(!AGREE && entry == 1 && !is_new);
  /* An input of one rank that violates the guard is a miss on all; a guard that it violates is no
   * guard of the next version. */
  set(seen, last() ? 10 : 8, 1, 3);
  CHECK_FAILS(AGREE, LOCKSTEP_BRANCH_DIVERGENCE,
              "relies on Mod(tokens.size(0), 4) == 0 (kernel.c:41)");
  CHECK(with.count == 3);
  CHECK(lockstep_report_rows(lockstep_last_error()) == (size > 1 ? 2U : 1U));
  CHECK(strcmp(lockstep_report_value(lockstep_last_error(), size > 1 ? 1 : 0),
               "tokens.size(0) = 10: false") == 0);
  CHECK(lockstep_exit_code(LOCKSTEP_BRANCH_DIVERGENCE) == 3);
  set(seen, 20, 1, 3);
  CHECK(!AGREE && entry == 1 && !is_new); /* as before */
  with.guard[0] = "tokens.size(0) % 2 == 0";
  set(seen, last() ? 10 : 8, 1, 3);
  CHECK(!AGREE && entry == 2 && is_new && with.count == 4);
  set(seen, 20, 1, 3);
  CHECK(!AGREE && !is_new);

  /* What cannot be a guard fails the build, whatever that returns. */
  set(seen, last() ? 7 : 8, 1, 3);
  with.guard[0] = last() ? "tokens.size(0) = 7" : NULL;
  CHECK_FAILS(AGREE, LOCKSTEP_BAD_INPUT,
              "the guard \"tokens.size(0) = 7\" at kernel.c:41 cannot be read from \"= 7\" on");
  with.guard[0] = "tokens.size(1) > 16";
  CHECK_FAILS(AGREE, LOCKSTEP_BRANCH_DIVERGENCE, "in which tokens.size(1) is 16");
  with.guard[0] = "rows > 1";
  CHECK_FAILS(AGREE, LOCKSTEP_BAD_INPUT, "of this version: n, tokens.size(0), tokens.size(1)");
  if (size > 1) {
    with.guard[0] = last() ? "tokens.size(0) > 2" : "tokens.size(0) > 3";
    CHECK_FAILS(AGREE, LOCKSTEP_GRAPH_DIVERGENCE, "guard tokens.size(0) >= 3 at kernel.c:41");
  }
  CHECK_FAILS(lockstep_build_guard(NULL, "n > 1", NULL), LOCKSTEP_BAD_INPUT, "built is NULL");
  with.guard[0] = with.guard[1] = NULL;
  CHECK(!AGREE && entry == 3 && is_new);
#undef AGREE
  lockstep_agreement_free(agreement);
  lockstep_observation_free(seen);
}

static int build_uniform(void* context, int entry, const lockstep_decision* decision,
                         lockstep_fingerprint* program, lockstep_built* built) {
  const char* const* const asked = context;
  (void)entry, (void)program, (void)decision;
  CHECK(!lockstep_build_uniform(built, "tokens.size(1) * 2", "all_gather", NULL)); /* a number */
  if (*asked != NULL) lockstep_build_uniform(built, *asked, "all_reduce", "kernel.c:33");
  return 0;
}

static void what_all_need_alike_is_compared_in_each_call(void) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  lockstep_config config = LOCKSTEP_CONFIG_INIT;
  const char* asked = "tokens.size(0) * n";
  int entry = -1, is_new = -1;
  CHECK(!lockstep_agreement_create(group, "uniform", NULL, &agreement));
#define AGREE lockstep_agree(agreement, "step", seen, build_uniform, &asked, &entry, &is_new, NULL)
  set(seen, 8, 1, 3);
  CHECK(!AGREE && entry == 0);
  set(seen, last() ? 5 : 8, 1, 3);
  if (size > 1) { /* before there is a version */
    CHECK_FAILS(
        AGREE, LOCKSTEP_CONSTRAINT_VIOLATION,
        "step: 3*tokens.size(0) differs between ranks, and all_reduce at kernel.c:33 needs it");
    CHECK(lockstep_report_rows(lockstep_last_error()) == 2U);
    CHECK(strcmp(lockstep_report_value(lockstep_last_error(), 1), "15") == 0);
  }
  set(seen, 12, 1, 3);
  CHECK(!AGREE && entry == 1 && is_new);
  set(seen, 16, 1, 3);
  CHECK(!AGREE && entry == 1 && !is_new);
  set(seen, last() ? 5 : 16, 1, 3);
  if (size > 1) CHECK_FAILS(AGREE, LOCKSTEP_CONSTRAINT_VIOLATION, "needs it to be the same on all");
  set(seen, 20, 1, 3);
  CHECK(!AGREE && entry == 1 && !is_new);
  asked = "tokens.rows";
  set(seen, 20, 0, 3);
  CHECK_FAILS(AGREE, LOCKSTEP_BAD_INPUT,
              "the uniform size \"tokens.rows\" at kernel.c:33 cannot be read");
  CHECK_FAILS(lockstep_build_uniform(NULL, "n", "all_reduce", NULL), LOCKSTEP_BAD_INPUT,
              "built is NULL");
  lockstep_agreement_free(agreement);
  /* Programs may differ, and then what they need alike; votes may not. */
  config.consistency = LOCKSTEP_SAME_COLLECTIVES;
  CHECK(!lockstep_agreement_create(group, "uniform apart", &config, &agreement));
  asked = NULL;
  set(seen, 8, 1, 3);
  CHECK(!AGREE && entry == 0);
  asked = last() ? NULL : "tokens.size(0)";
  set(seen, 12, 1, 3);
  if (size > 1) CHECK(AGREE == LOCKSTEP_GRAPH_DIVERGENCE);
  asked = "tokens.size(0)";
  CHECK(!AGREE && is_new);
  lockstep_agreement_free(agreement);
  config.consistency = LOCKSTEP_SHARED_SIZES;
  CHECK(!lockstep_agreement_create(group, "uniform of some", &config, &agreement));
  asked = NULL;
  set(seen, 8, 1, 3);
  CHECK(!AGREE);
  asked = last() ? "tokens.size(0)" : NULL;
  set(seen, 12, 1, 3);
  CHECK_FAILS(AGREE, LOCKSTEP_BAD_INPUT, "uniform sizes cannot be compared under shared_sizes");
#undef AGREE
  lockstep_agreement_free(agreement);
  lockstep_observation_free(seen);
}

struct nested {
  lockstep_agreement* agreement;
  int code;
};

static int build_that_reaches_out(void* context, int entry, const lockstep_decision* decision,
                                  lockstep_fingerprint* program, lockstep_built* built) {
  struct nested* nested = context;
  lockstep_observation* seen = make_observation();
  (void)entry, (void)decision, (void)program;
  nested->code = lockstep_poke(group);
  CHECK_FAILS(lockstep_prefetch(nested->agreement, "f", seen), LOCKSTEP_BAD_INPUT,
              "must not call another one");
  CHECK_FAILS(lockstep_resync(group), LOCKSTEP_BAD_INPUT, "must not call another one");
  CHECK_FAILS(lockstep_build_guard(built, NULL, NULL), LOCKSTEP_BAD_INPUT, "condition is NULL");
  lockstep_build_failed(built, LOCKSTEP_COMPILE_ERROR, "a second reason, which does not count");
  lockstep_observation_free(seen);
  return 0;
}

static void misuse_of_what_is_ahead_is_one_clear_sentence(void) {
  struct nested nested = {NULL, -1};
  lockstep_observation* seen = make_observation();
  int entry = 0;
  CHECK(!lockstep_agreement_create(group, "misuse", NULL, &nested.agreement));
  CHECK_FAILS(lockstep_agree(nested.agreement, "f", seen, build_that_reaches_out, &nested, &entry,
                             NULL, NULL),
              LOCKSTEP_BAD_INPUT, "condition is NULL");
  CHECK(nested.code == LOCKSTEP_OK);
  CHECK_FAILS(lockstep_prefetch(NULL, "f", seen), LOCKSTEP_BAD_INPUT, "agreement is NULL");
  CHECK_FAILS(lockstep_prefetch(nested.agreement, NULL, seen), LOCKSTEP_BAD_INPUT,
              "frame is NULL or empty");
  CHECK_FAILS(lockstep_settle(group), LOCKSTEP_BAD_INPUT, "frame is NULL or empty");
  CHECK_FAILS(lockstep_resync(NULL), LOCKSTEP_BAD_INPUT, "group is NULL");
  CHECK_FAILS(lockstep_poke(NULL), LOCKSTEP_BAD_INPUT, "group is NULL");
  lockstep_build_failed(NULL, 0, "nothing");
  lockstep_agreement_free(nested.agreement);
  lockstep_observation_free(seen);
}

static void a_group_that_is_over_says_so(lockstep_agreement* agreement) {
  lockstep_observation* seen = make_observation();
  CHECK_FAILS(lockstep_resync(group), LOCKSTEP_BAD_INPUT, "the group is over");
  CHECK_FAILS(lockstep_poke(group), LOCKSTEP_BAD_INPUT, "the group is over");
  CHECK_FAILS(lockstep_prefetch(agreement, "f", seen), LOCKSTEP_BAD_INPUT, "the group is over");
  lockstep_group_close(group);
  CHECK_FAILS(lockstep_prefetch(agreement, "f", seen), LOCKSTEP_BAD_INPUT, "the group is over");
  lockstep_agreement_free(agreement);
  lockstep_observation_free(seen);
}

static void all_calls(void) {
  prefetched_calls_come_to_the_same();
  a_broken_prefetch_is_every_ranks_error_where_a_version_is_built();
  resync_brings_ranks_into_step();
  a_version_fits_only_where_its_guards_hold();
  what_all_need_alike_is_compared_in_each_call();
  what_one_rank_builds_all_have();
  misuse_of_what_is_ahead_is_one_clear_sentence();
}

int main(int argc, char** argv) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* promise = make_observation();
  open_group(argc, argv);
  all_calls();
  alone(all_calls);
  CHECK(!lockstep_agreement_create(group, "left over", NULL, &agreement));
  CHECK(!lockstep_prefetch(agreement, "f", promise));
  lockstep_observation_free(promise);
  CHECK(!lockstep_finish(group));
  a_group_that_is_over_says_so(agreement);
  say_well("capi_ahead_test");
  return 0;
}
