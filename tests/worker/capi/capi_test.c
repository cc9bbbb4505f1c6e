/* The C interface from a C program, under mpirun with any number of ranks. */
#include "calls.h"
#include <pthread.h>
#include <stddef.h>

static void check_decision(const lockstep_decision* decision) {
  int is_symbol = -1, unbacked = -1;
  int64_t value = -1, min = -1, hint = -1;
  CHECK(lockstep_decision_sources(decision) == 4);
  CHECK(strcmp(lockstep_decision_name(decision, 0), "lr") == 0);
  CHECK(strcmp(lockstep_decision_name(decision, 2), "tokens") == 0);
  CHECK(lockstep_decision_name(decision, 4) == NULL);
  CHECK(lockstep_decision_kind(decision, 0) == LOCKSTEP_FLOAT);
  CHECK(lockstep_decision_kind(decision, 2) == LOCKSTEP_TENSOR);
  CHECK(lockstep_decision_kind(decision, 3) == LOCKSTEP_BOOLEAN);
  CHECK(lockstep_decision_dtype(decision, 2) == LOCKSTEP_I64);
  CHECK(lockstep_decision_dtype(decision, 3) == -1);
  CHECK(lockstep_decision_dims(decision, 2) == 2);
  CHECK(lockstep_decision_dims(decision, 0) == 0);
  CHECK(lockstep_decision_dim(decision, 2, 0, &is_symbol, &value) == LOCKSTEP_OK);
  CHECK(is_symbol == 1 && value == 0);
  CHECK(lockstep_decision_dim(decision, 2, 1, &is_symbol, &value) == LOCKSTEP_OK);
  CHECK(is_symbol == 0 && value == 16);
  CHECK_FAILS(lockstep_decision_dim(decision, 2, 2, &is_symbol, &value), LOCKSTEP_BAD_INPUT,
              "no dim 2");
  CHECK(lockstep_decision_symbols(decision) == 1);
  CHECK(strcmp(lockstep_decision_symbol_source(decision, 0), "tokens.size(0)") == 0);
  CHECK(lockstep_decision_symbol(decision, 0, &min, &hint, &unbacked) == LOCKSTEP_OK);
  CHECK(min == 2 && hint >= 2 && unbacked == 0);
  CHECK_FAILS(lockstep_decision_symbol(decision, 1, &min, NULL, NULL), LOCKSTEP_BAD_INPUT,
              "no symbol 1");
}

static void agreement_settles_on_one_dynamic_version(void) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  const lockstep_decision *decision = NULL, *first = NULL;
  struct builds builds = {0, -1, 0, "", ""};
  int call, entry = -1, is_new = -1;
  CHECK(lockstep_agreement_create(group, "world", NULL, &agreement) == LOCKSTEP_OK);
  for (call = 0; call < 6; ++call) {
    set(seen, call < 2 ? 12 : 4 + (3 * rank + 5 * call) % 7, 1, 3);
    CHECK(lockstep_agree(agreement, "step", seen, build, &builds, &entry, &is_new, &decision) ==
          LOCKSTEP_OK);
    CHECK(entry == (call < 2 ? 0 : 1));
    CHECK(is_new == (call == 0 || call == 2));
    if (call == 0) first = decision;
    CHECK((decision == first) == (call < 2));
  }
  CHECK(builds.count == 2 && builds.last_entry == 1);
  CHECK(strcmp(lockstep_decision_text(first),
               "lr: float; n: int 3; tokens: i64[12, 16]; training: bool true") == 0);
  CHECK(strcmp(lockstep_decision_json(first),
               "{\"decisions\":{\"n\":3,\"tokens\":[12,16],\"training\":true},\"symbols\":{}}") ==
        0);
  check_decision(decision);
  CHECK(strstr(builds.json, "\"s0\":{\"source\":\"tokens.size(0)\",\"min\":2,") != NULL);
  {
    /* All values at once say the same as one by one; a mark makes another version. */
    const int64_t all[4] = {5, 16, 1, 3};
    CHECK(lockstep_set_all(seen, all, 4) == LOCKSTEP_OK);
    CHECK(lockstep_agree(agreement, "step", seen, build, &builds, &entry, &is_new, NULL) ==
          LOCKSTEP_OK);
    CHECK(entry == 1 && is_new == 0);
    CHECK(lockstep_set_mark(seen, 0, 1, LOCKSTEP_MARK_DYNAMIC) == LOCKSTEP_OK);
    CHECK(lockstep_agree(agreement, "step", seen, build, &builds, &entry, &is_new, NULL) ==
          LOCKSTEP_OK);
    CHECK(entry == 2 && is_new == 1);
  }
  lockstep_observation_free(seen);
  lockstep_agreement_free(agreement);
}

/* One call of "step" as `untested` says for this rank; what it says of all. */
static int untested_of(lockstep_agreement* agreement, const lockstep_observation* seen,
                       int untested, int* entry, int* is_new) {
  struct builds builds = {0, -1, 0, "", ""};
  *entry = *is_new = -1;
  CHECK(!lockstep_agree_tested(agreement, "step", seen, &untested, build, &builds, entry, is_new,
                               NULL));
  CHECK(builds.count == (*is_new != 0));
  return untested;
}

static void what_a_rank_has_not_tested_is_told_to_all(void) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  int entry = -1, is_new = -1;
  CHECK(!lockstep_agreement_create(group, "tested", NULL, &agreement));
  set(seen, 12, 1, 3);
  CHECK(untested_of(agreement, seen, last(), &entry, &is_new) == 1 && entry == 0 && is_new);
  CHECK(untested_of(agreement, seen, 0, &entry, &is_new) == 0 && entry == 0 && !is_new);
  /* No objection: the entry is the same, and nothing is exchanged or built. */
  CHECK(untested_of(agreement, seen, last(), &entry, &is_new) == 1 && entry == 0 && !is_new);
  CHECK(untested_of(agreement, seen, 1, &entry, &is_new) == 1 && entry == 0 && !is_new);
  CHECK(untested_of(agreement, seen, 0, &entry, &is_new) == 0 && entry == 0 && !is_new);
  /* The vote of a call that was committed to has been cast without it. */
  CHECK(!lockstep_prefetch(agreement, "step", seen));
  CHECK(untested_of(agreement, seen, 0, &entry, &is_new) == 1 && entry == 0 && !is_new);
  if (last()) {
    CHECK_FAILS(
        lockstep_agree_tested(agreement, "step", seen, NULL, build, NULL, &entry, NULL, NULL),
        LOCKSTEP_BAD_INPUT, "untested is NULL");
  } else {
    CHECK_FAILS(lockstep_agree(agreement, "step", seen, build, NULL, &entry, NULL, NULL),
                LOCKSTEP_BAD_INPUT, "untested is NULL");
  }
  lockstep_observation_free(seen);
  lockstep_agreement_free(agreement);
}

static void past_the_limit_calls_fall_back(void) {
  lockstep_config config = LOCKSTEP_CONFIG_INIT;
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  const lockstep_decision* decision = NULL;
  struct builds builds = {0, -1, 0, "", ""};
  int entry = 0;
  config.recompile_limit = 1;
  CHECK(lockstep_agreement_create(group, "limited", &config, &agreement) == LOCKSTEP_OK);
  set(seen, 8, 1, 3);
  CHECK(!lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, &decision));
  CHECK(decision != NULL);
  set(seen, 8, 0, 3);
  CHECK(!lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, &decision));
  CHECK(entry == -1 && decision == NULL && builds.count == 1);
  {
    /* Fields are joined all the same. */
    int64_t joined = -1;
    CHECK(!lockstep_observe_field(seen, "capacity", LOCKSTEP_FIELD_INT, LOCKSTEP_JOIN_MAX, NULL));
    CHECK(!lockstep_set_field_int(seen, 0, 100 + rank));
    CHECK(!lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, &decision));
    CHECK(entry == -1 && decision != NULL && builds.count == 1);
    CHECK(!lockstep_decision_field_int(decision, 0, 0, &joined) && joined == 99 + size);
  }
  lockstep_observation_free(seen);
  lockstep_agreement_free(agreement);
}

/* Fourteen ints that change one after another, in an agreement with the given configuration:
 * versions built, and calls without one. */
static void change_ints(const lockstep_config* config, int* versions, int* without) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = NULL;
  struct builds builds = {0, -1, 0, "", ""};
  size_t i = 0, source = 0;
  int call, entry = 0;
  CHECK(!lockstep_observation_create(&seen));
  for (i = 0; i < 14; ++i) {
    char name[8];
    snprintf(name, sizeof name, "n%d", (int)i);
    CHECK(!lockstep_observe_int(seen, name, &source) && source == i);
    CHECK(!lockstep_set_int(seen, i, 3));
  }
  CHECK(!lockstep_agreement_create(group, "ints", config, &agreement));
  *without = 0;
  for (call = 0; call <= 14; ++call) {
    if (call > 0) CHECK(!lockstep_set_int(seen, (size_t)(call - 1), -1));
    CHECK(!lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL));
    *without += entry < 0;
  }
  *versions = builds.count;
  lockstep_observation_free(seen);
  lockstep_agreement_free(agreement);
}

static void a_frame_settles(void) {
  lockstep_config config = LOCKSTEP_CONFIG_INIT;
  int versions = 0, without = 0;
  change_ints(NULL, &versions, &without);
  CHECK(versions == 4 && without == 0);
  config.recompile_limit = 3;
  change_ints(&config, &versions, &without);
  CHECK(versions == 2 && without == 0);
  config.settle = 0;
  change_ints(&config, &versions, &without);
  CHECK(versions == 3 && without == 12);
  /* A caller that was built before there was `settle`. */
  config.struct_size = (uint32_t)offsetof(lockstep_config, settle);
  change_ints(&config, &versions, &without);
  CHECK(versions == 2 && without == 0);
}

/* Is told of the joined fields while a version is built. */
static int build_with_fields(void* context, int entry, const lockstep_decision* decision,
                             lockstep_fingerprint* program, lockstep_built* built) {
  int64_t* capacity = context;
  (void)entry, (void)program, (void)built;
  return lockstep_decision_field_int(decision, 0, 0, capacity);
}

static void check_fields(const lockstep_decision* decision) {
  int64_t number = -1;
  size_t length = 99;
  const char* bytes;
  CHECK(lockstep_decision_fields(decision) == 4);
  CHECK(strcmp(lockstep_decision_field_name(decision, 0), "capacity") == 0);
  CHECK(lockstep_decision_field_name(decision, 4) == NULL);
  CHECK(lockstep_decision_field_type(decision, 0) == LOCKSTEP_FIELD_INT);
  CHECK(lockstep_decision_field_join(decision, 0) == LOCKSTEP_JOIN_MAX);
  CHECK(lockstep_decision_field_type(decision, 4) == -1);
  CHECK(lockstep_decision_field_join(decision, 4) == -1);
  CHECK(lockstep_decision_field_values(decision, 0) == 1);
  CHECK(!lockstep_decision_field_int(decision, 0, 0, &number) && number == 99 + size);
  CHECK_FAILS(lockstep_decision_field_int(decision, 0, 1, &number), LOCKSTEP_BAD_INPUT,
              "no number 1 of a field 0");
  CHECK_FAILS(lockstep_decision_field_int(decision, 1, 0, &number), LOCKSTEP_BAD_INPUT,
              "no number 0 of a field 1");
  /* hosts: the union in the order of ranks. */
  CHECK(lockstep_decision_field_values(decision, 1) == (size_t)(size < 2 ? 1 : 2));
  CHECK(strcmp(lockstep_decision_field_bytes(decision, 1, 0, NULL), "even") == 0);
  CHECK(lockstep_decision_field_bytes(decision, 0, 0, &length) == NULL && length == 0);
  bytes = lockstep_decision_field_bytes(decision, 2, 0, &length);
  CHECK(bytes != NULL && length == 3 && memcmp(bytes, "a\0\xff", 4) == 0);
  CHECK(!lockstep_decision_field_int(decision, 3, 0, &number) && number == 0);
  CHECK(strstr(lockstep_decision_json(decision), "\"key\":{\"hex\":\"6100ff\"}") != NULL);
}

static void fields_are_joined(void) {
  static const char raw[3] = {'a', 0, (char)0xff};
  static char many[1025];
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  const lockstep_decision* decision = NULL;
  size_t capacity = 9, hosts = 9, key = 9, ready = 9;
  int64_t joined = -1;
  int entry = -1, is_new = -1;
  CHECK(!lockstep_agreement_create(group, "fields", NULL, &agreement));
  set(seen, 8, 1, 3);
  CHECK(!lockstep_observe_field(seen, "ready", LOCKSTEP_FIELD_BOOL, LOCKSTEP_JOIN_MIN, &ready));
  CHECK(
      !lockstep_observe_field(seen, "capacity", LOCKSTEP_FIELD_INT, LOCKSTEP_JOIN_MAX, &capacity));
  CHECK(!lockstep_observe_field(seen, "hosts", LOCKSTEP_FIELD_TEXT, LOCKSTEP_JOIN_UNION, &hosts));
  CHECK(!lockstep_observe_field(seen, "key", LOCKSTEP_FIELD_BYTES, LOCKSTEP_JOIN_EQUAL, &key));
  CHECK(ready == 0 && capacity == 1 && hosts == 2 && key == 3);
  CHECK(!lockstep_set_field_bool(seen, ready, !last()));
  CHECK(!lockstep_set_field_int(seen, capacity, 100 + rank));
  CHECK(!lockstep_set_field_text(seen, hosts, rank % 2 == 0 ? "even" : "odd"));
  CHECK(!lockstep_set_field_bytes(seen, key, raw, sizeof raw));
  CHECK(!lockstep_agree(agreement, "step", seen, build_with_fields, &joined, &entry, &is_new,
                        &decision));
  CHECK(entry == 0 && is_new == 1 && joined == 99 + size);
  check_fields(decision);
  CHECK(!lockstep_set_field_int(seen, capacity, 50 - rank));
  CHECK(!lockstep_agree(agreement, "step", seen, build_with_fields, &joined, &entry, &is_new,
                        &decision));
  CHECK(entry == 0 && is_new == 0);
  check_fields(decision);
  if (size > 1) {
    CHECK(!lockstep_set_field_bytes(seen, key, last() ? "z" : "y", 1));
    CHECK_FAILS(
        lockstep_agree(agreement, "step", seen, build_with_fields, &joined, &entry, NULL, NULL),
        LOCKSTEP_CONSTANT_MISMATCH, "0x7a");
    if (last()) {
      CHECK(!lockstep_observe_field(seen, "more", LOCKSTEP_FIELD_INT, LOCKSTEP_JOIN_MAX, NULL));
    }
    CHECK_FAILS(
        lockstep_agree(agreement, "step", seen, build_with_fields, &joined, &entry, NULL, NULL),
        LOCKSTEP_SOURCE_MISMATCH, "field more");
  }
  CHECK(!lockstep_set_field_bytes(seen, key, many, 1024));
  CHECK_FAILS(lockstep_set_field_bytes(seen, key, many, 1025), LOCKSTEP_BAD_INPUT,
              "key has 1025 bytes");
  CHECK_FAILS(lockstep_set_field_int(seen, key, 1), LOCKSTEP_BAD_INPUT,
              "key was declared as bytes, not as int");
  CHECK_FAILS(lockstep_set_field_int(seen, 99, 1), LOCKSTEP_BAD_INPUT, "no field 99");
  CHECK_FAILS(lockstep_observe_field(seen, "n", LOCKSTEP_FIELD_INT, LOCKSTEP_JOIN_MAX, NULL),
              LOCKSTEP_BAD_INPUT, "n has been declared already");
  CHECK_FAILS(lockstep_observe_int(seen, "key", NULL), LOCKSTEP_BAD_INPUT,
              "key has been declared already");
  CHECK_FAILS(lockstep_observe_field(seen, "", LOCKSTEP_FIELD_INT, LOCKSTEP_JOIN_MAX, NULL),
              LOCKSTEP_BAD_INPUT, "name is NULL or empty");
  CHECK_FAILS(lockstep_observe_field(seen, "x", 5, LOCKSTEP_JOIN_MAX, NULL), LOCKSTEP_BAD_INPUT,
              "5 is no type");
  CHECK_FAILS(lockstep_observe_field(seen, "x", LOCKSTEP_FIELD_INT, -1, NULL), LOCKSTEP_BAD_INPUT,
              "-1 is no join");
  lockstep_observation_free(seen);
  lockstep_agreement_free(agreement);
}

static void an_error_of_one_rank_is_every_ranks(void) {
  lockstep_agreement *agreement = NULL, *elsewhere = NULL;
  lockstep_observation* seen = make_observation();
  struct builds builds = {0, -1, 0, "", ""};
  const lockstep_report* error;
  int entry = 0;
  char own[32];
  CHECK(!lockstep_agreement_create(group, "errors", NULL, &agreement));
  set(seen, 8, 1, 3);

  builds.fail_code = LOCKSTEP_TRACE_ERROR;
  CHECK_FAILS(lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL),
              LOCKSTEP_TRACE_ERROR, "out of registers");
  snprintf(own, sizeof own, "rank %d", size - 1);
  error = lockstep_last_error();
  CHECK(strstr(lockstep_report_message(error), own) != NULL);
  CHECK(lockstep_report_rows(error) == (size == 1 ? 1U : 2U));
  CHECK(strcmp(lockstep_report_value(error, lockstep_report_rows(error) - 1), "out of registers") ==
        0);
  CHECK(strcmp(lockstep_report_ranks(error, 9), "") == 0);
  CHECK(lockstep_exit_code(lockstep_report_code(error)) == 3);
  builds.fail_code = -1; /* fails and says nothing */
  CHECK_FAILS(lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL),
              LOCKSTEP_COMPILE_ERROR, "the build callback returned 7 and no reason");

  /* A wrong argument on one rank. */
  CHECK_FAILS(
      lockstep_agree(agreement, "step", last() ? NULL : seen, build, &builds, &entry, NULL, NULL),
      LOCKSTEP_BAD_INPUT, "observation is NULL");
  CHECK_FAILS(
      lockstep_agree(agreement, last() ? "" : "step", seen, build, &builds, &entry, NULL, NULL),
      LOCKSTEP_BAD_INPUT, "frame is NULL or empty");
  CHECK_FAILS(
      lockstep_agree(agreement, "step", seen, build, &builds, last() ? NULL : &entry, NULL, NULL),
      LOCKSTEP_BAD_INPUT, "entry is NULL");
  /* Trouble between calls. */
  if (last()) CHECK(!lockstep_trouble(group, LOCKSTEP_RUNTIME_ASSERT, "the loss is not a number"));
  CHECK_FAILS(lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL),
              LOCKSTEP_RUNTIME_ASSERT, "the loss is not a number");

  if (size > 1) {
    int64_t sizes[2] = {8, 16};
    sizes[1] += last();
    CHECK(!lockstep_set_mark(seen, 0, 1, LOCKSTEP_MARK_STATIC));
    CHECK(!lockstep_set_sizes(seen, 0, sizes, NULL));
    CHECK_FAILS(lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL),
                LOCKSTEP_CONSTRAINT_VIOLATION, "tokens.size(1)");
    CHECK(strcmp(lockstep_report_source(lockstep_last_error()), "tokens.size(1)") == 0);
    CHECK(strcmp(lockstep_report_value(lockstep_last_error(), 1), "17") == 0);
    CHECK(!lockstep_set_mark(seen, 0, 1, LOCKSTEP_MARK_UNIFORM));
    CHECK_FAILS(lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL),
                LOCKSTEP_CONSTRAINT_VIOLATION, "tokens.size(1) is marked uniform");
    CHECK_FAILS(lockstep_agree(agreement, last() ? "evaluate" : "step", seen, build, &builds,
                               &entry, NULL, NULL),
                LOCKSTEP_FRAME_MISMATCH, "evaluate");
    CHECK(!lockstep_set_mark(seen, 0, 1, LOCKSTEP_MARK_NONE));
  }
  CHECK(!lockstep_agreement_create(group, "elsewhere", NULL, &elsewhere));
  if (size > 1)
    CHECK_FAILS(last()
                    ? lockstep_settle(group)
                    : lockstep_agree(elsewhere, "step", seen, build, &builds, &entry, NULL, NULL),
                LOCKSTEP_FRAME_MISMATCH, "settle");
  CHECK(!lockstep_settle(group));
  lockstep_agreement_free(elsewhere);
  /* After all that the next call works. */
  builds.fail_code = 0;
  set(seen, 8, 1, 3);
  CHECK(!lockstep_agree(agreement, "step", seen, build, &builds, &entry, NULL, NULL));
  CHECK(entry == 0);
  lockstep_observation_free(seen);
  lockstep_agreement_free(agreement);
}

static void votes_are_joint(void) {
  int result = -1, rounds = 0, have = 1;
  CHECK(!lockstep_vote_any(group, last(), &result) && result == 1);
  CHECK(!lockstep_vote_any(group, 0, &result) && result == 0);
  CHECK(!lockstep_vote_all(group, last(), &result) && result == (size == 1));
  CHECK(!lockstep_vote_all(group, 5, &result) && result == 1);
  /* Rank r has r + 1 batches; all go round as often as the one with most. */
  while (have) {
    CHECK(!lockstep_more(group, rounds < rank + 1, &have));
    rounds += have;
  }
  CHECK(rounds == size);
  CHECK(!lockstep_settle(group));
  if (last()) CHECK(!lockstep_trouble(group, LOCKSTEP_ENVIRONMENT, "the disk is full"));
  CHECK_FAILS(lockstep_vote_any(group, 1, &result), LOCKSTEP_ENVIRONMENT, "the disk is full");
  CHECK(lockstep_exit_code(LOCKSTEP_ENVIRONMENT) == 7);
  CHECK_FAILS(lockstep_vote_all(group, 1, last() ? NULL : &result), LOCKSTEP_BAD_INPUT,
              "result is NULL");
  if (size > 1)
    CHECK_FAILS(
        last() ? lockstep_vote_any(group, 1, &result) : lockstep_vote_all(group, 1, &result),
        LOCKSTEP_FRAME_MISMATCH, "vote_any");
  CHECK(!lockstep_settle(group));
}

static lockstep_run runs(const char* program, const char* collectives) {
  lockstep_run run;
  memset(&run, 0, sizeof run);
  run.struct_size = sizeof run;
  run.program = lockstep_fingerprint_of(program, strlen(program));
  run.program_text = program;
  run.collectives_text = collectives;
  if (collectives != NULL) {
    run.collectives_known = *collectives ? LOCKSTEP_COLLECTIVES_LISTED : LOCKSTEP_COLLECTIVES_NONE;
    run.collectives = lockstep_fingerprint_of(collectives, strlen(collectives));
  }
  return run;
}

static void audit_finds_and_stops(void) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  lockstep_run run;
  uint64_t times = 99, i;
  CHECK(!lockstep_agreement_create(group, "audit", NULL, &agreement));
  set(seen, last() ? 9 : 8, 1, 3);
  run = runs("p", "all_reduce");
  CHECK(!lockstep_audit(agreement, "step", seen, &run, &times) && times == 0);
  CHECK(lockstep_finding(agreement) == NULL);
  for (i = 1; size > 1 && i < 4; ++i) {
    run = runs(last() ? "q" : "p", "all_reduce");
    run.is_new = last();
    CHECK(!lockstep_audit(agreement, "step", seen, &run, &times) && times == i);
    CHECK(lockstep_report_code(lockstep_finding(agreement)) == LOCKSTEP_GRAPH_DIVERGENCE);
    CHECK(strcmp(lockstep_report_source(lockstep_finding(agreement)), "tokens.size(0)") == 0);
    CHECK(strstr(lockstep_report_message(lockstep_finding(agreement)), "the call goes on") != NULL);
    run = runs(last() ? "q" : "p", last() ? "all_reduce\nall_gather" : "all_reduce");
    CHECK_FAILS(lockstep_audit(agreement, "step", seen, &run, &times), LOCKSTEP_GRAPH_DIVERGENCE,
                "collective 2 is not the same");
    CHECK(lockstep_finding(agreement) == NULL);
    run = runs("p", "all_reduce");
    if (last()) run.trouble = "cannot compile this";
    CHECK_FAILS(lockstep_audit(agreement, "step", NULL, &run, &times), LOCKSTEP_COMPILE_ERROR,
                "cannot compile this");
    if (last()) run.struct_size = 3;
    run.trouble = NULL;
    CHECK_FAILS(lockstep_audit(agreement, "step", seen, &run, &times), LOCKSTEP_BAD_INPUT,
                "run.struct_size");
    run = runs("p", "all_reduce");
    run.is_new = last();
    CHECK(!lockstep_note(group, "between two calls"));
    CHECK(!lockstep_issues(group, "all_reduce f32[4]") && !lockstep_stalls(group));
    CHECK(!lockstep_audit(agreement, "step", seen, &run, &times) && times == 0);
    run = runs(last() ? "few words\nsame\nmine" : "other words\nsame\nyours", "all_reduce");
    if (last()) run.collectives = lockstep_fingerprint_of("barrier", 7);
    run.collectives_known = LOCKSTEP_COLLECTIVES_ISSUED;
    CHECK_FAILS(lockstep_audit(agreement, "step", seen, &run, &times), LOCKSTEP_GRAPH_DIVERGENCE,
                "have issued different collectives");
    run = runs(last() ? "few words\nsame\nmine" : "other words\nsame\nyours", "all_reduce");
    CHECK(!lockstep_audit(agreement, "step", seen, &run, &times));
    CHECK(strstr(lockstep_report_message(lockstep_finding(agreement)), "from line 2 on") != NULL);
    run = runs(last() ? "q" : "p", NULL);
    CHECK(!lockstep_audit(agreement, "unknown", seen, &run, &times) && times == i);
    CHECK(strstr(lockstep_report_message(lockstep_finding(agreement)), "not known") != NULL);
  }
  if (size > 1)
    CHECK(strstr(lockstep_audit_summary(agreement),
                 "25 calls, 9 with a finding (3 different), 12 stopped") != NULL);
  lockstep_observation_free(seen);
  lockstep_agreement_free(agreement);
}

static void other_configurations_are_refused_on_all(void) {
  lockstep_config config = LOCKSTEP_CONFIG_INIT;
  lockstep_agreement* agreement = NULL;
  int result = 0;
  if (size > 1) {
    config.recompile_limit = last() ? 4 : 8;
    CHECK_FAILS(lockstep_agreement_create(group, "world", &config, &agreement),
                LOCKSTEP_CONFIG_MISMATCH, "recompile_limit");
    CHECK(agreement == NULL);
    config.recompile_limit = 8;
    config.settle = !last();
    CHECK_FAILS(lockstep_agreement_create(group, "world", &config, &agreement),
                LOCKSTEP_CONFIG_MISMATCH, "settle");
    config.settle = 1;
  }
  config.recompile_limit = last() ? 65 : 8;
  CHECK_FAILS(lockstep_agreement_create(group, "world", &config, &agreement),
              size > 1 ? LOCKSTEP_CONFIG_MISMATCH : LOCKSTEP_BAD_INPUT,
              "config.recompile_limit is 65; give a number from 1 to 64");
  CHECK(!lockstep_vote_all(group, 1, &result) && result == 1);
}

static void wrong_arguments_are_one_clear_sentence(void) {
  lockstep_observation* seen = make_observation();
  int64_t sizes[2] = {4, -1};
  int64_t all[4] = {8, 16, 2, 3};
  size_t source = 0;
  CHECK_FAILS(lockstep_observe_tensor(seen, "x", 10, 1, NULL), LOCKSTEP_BAD_INPUT,
              "10 is no dtype");
  CHECK_FAILS(lockstep_observe_tensor(seen, "x", -1, 1, NULL), LOCKSTEP_BAD_INPUT,
              "-1 is no dtype");
  CHECK_FAILS(lockstep_observe_tensor(seen, "x", LOCKSTEP_F32, 17, NULL), LOCKSTEP_BAD_INPUT,
              "17 dims are too many");
  CHECK_FAILS(lockstep_observe_tensor(NULL, "x", LOCKSTEP_F32, 1, NULL), LOCKSTEP_BAD_INPUT,
              "observation is NULL");
  CHECK_FAILS(lockstep_observe_int(seen, "", &source), LOCKSTEP_BAD_INPUT, "name is NULL or empty");
  CHECK_FAILS(lockstep_observe_int(seen, "tokens", &source), LOCKSTEP_BAD_INPUT,
              "tokens has been declared already");
  CHECK_FAILS(lockstep_set_sizes(seen, 0, sizes, NULL), LOCKSTEP_BAD_INPUT,
              "size 1 of tokens is -1; it cannot be negative");
  sizes[1] = 1;
  all[0] = -2;
  CHECK_FAILS(lockstep_set_sizes(seen, 0, sizes, all), LOCKSTEP_BAD_INPUT,
              "stride 0 of tokens is -2");
  CHECK_FAILS(lockstep_set_sizes(seen, 0, NULL, NULL), LOCKSTEP_BAD_INPUT, "sizes is NULL");
  CHECK_FAILS(lockstep_set_sizes(seen, 4, sizes, NULL), LOCKSTEP_BAD_INPUT, "there is no source 4");
  CHECK_FAILS(lockstep_set_int(seen, 0, 1), LOCKSTEP_BAD_INPUT,
              "was declared as tensor, not as int");
  CHECK_FAILS(lockstep_set_bool(seen, 1, 2), LOCKSTEP_BAD_INPUT,
              "training is a bool and cannot be 2");
  CHECK_FAILS(lockstep_set_all(seen, all, 3), LOCKSTEP_BAD_INPUT,
              "3 values were given; the declared sources have 4");
  CHECK_FAILS(lockstep_set_all(seen, all, 4), LOCKSTEP_BAD_INPUT, "size 0 of tokens is -2");
  CHECK_FAILS(lockstep_set_mark(seen, 0, 2, LOCKSTEP_MARK_STATIC), LOCKSTEP_BAD_INPUT, "no dim 2");
  CHECK_FAILS(lockstep_set_mark(seen, 0, 1, 6), LOCKSTEP_BAD_INPUT, "6 is no mark");
  CHECK_FAILS(lockstep_settle(NULL), LOCKSTEP_BAD_INPUT, "group is NULL");
  CHECK_FAILS(lockstep_trouble(group, LOCKSTEP_STUCK, "x"), LOCKSTEP_BAD_INPUT, "(STUCK)");
  CHECK_FAILS(lockstep_trouble(group, LOCKSTEP_BAD_INPUT, NULL), LOCKSTEP_BAD_INPUT,
              "text is NULL");
  CHECK_FAILS(lockstep_busy(group, -1), LOCKSTEP_BAD_INPUT, "seconds is -1");
  CHECK_FAILS(lockstep_group_alone(NULL), LOCKSTEP_BAD_INPUT, "group is NULL");
  CHECK_FAILS(lockstep_agree(NULL, "f", seen, build, NULL, NULL, NULL, NULL), LOCKSTEP_BAD_INPUT,
              "agreement is NULL");
  CHECK(lockstep_group_rank(NULL) == -1 && lockstep_group_size(NULL) == -1);
  CHECK(lockstep_dtype_from_name("bf16") == LOCKSTEP_BF16 && lockstep_dtype_from_name("f8") == -1 &&
        lockstep_dtype_from_name(NULL) == -1);
  CHECK(strcmp(lockstep_code_name(LOCKSTEP_KIND_MISMATCH), "KIND_MISMATCH") == 0);
  CHECK(strcmp(lockstep_code_name(-5), "(no such code)") == 0);
  CHECK(lockstep_exit_code(LOCKSTEP_OK) == 0 && lockstep_exit_code(LOCKSTEP_RANK_LOST) == 5);
  CHECK(lockstep_abi() == LOCKSTEP_ABI);
  CHECK(!lockstep_busy(group, 1));
  lockstep_observation_free(seen);
  lockstep_observation_free(NULL);
  lockstep_agreement_free(NULL);
  lockstep_group_close(NULL);
}

struct nested {
  lockstep_agreement* agreement;
  int code;
};

static int nested_build(void* context, int entry, const lockstep_decision* decision,
                        lockstep_fingerprint* program, lockstep_built* built) {
  struct nested* nested = context;
  (void)entry, (void)decision, (void)program, (void)built;
  nested->code = lockstep_settle(group);
  return 0;
}

static void a_build_that_calls_a_collective_function_is_refused(void) {
  struct nested nested = {NULL, 0};
  lockstep_observation* seen = make_observation();
  int entry = -2;
  CHECK(!lockstep_agreement_create(group, "nested", NULL, &nested.agreement));
  CHECK(!lockstep_agree(nested.agreement, "f", seen, nested_build, &nested, &entry, NULL, NULL));
  CHECK(entry == 0 && nested.code == LOCKSTEP_BAD_INPUT);
  CHECK(strstr(lockstep_report_text(lockstep_last_error()), "must not call another one") != NULL);
  lockstep_agreement_free(nested.agreement);
  lockstep_observation_free(seen);
}

static void a_group_that_is_over_says_so(lockstep_agreement* agreement) {
  lockstep_observation* seen = make_observation();
  int entry = 0;
  CHECK_FAILS(lockstep_settle(group), LOCKSTEP_BAD_INPUT, "the group is over");
  lockstep_group_close(group);
  CHECK_FAILS(lockstep_agree(agreement, "f", seen, build, NULL, &entry, NULL, NULL),
              LOCKSTEP_BAD_INPUT, "the group is over");
  lockstep_observation_free(seen);
  lockstep_agreement_free(agreement);
}

/* What a second thread is told in the middle of a build; its last error is its own. */
static void* second_thread(void* context) {
  lockstep_agreement* agreement = context;
  lockstep_observation* seen = make_observation();
  int result = -1;
  static const char* const kSaid = "the group: thread ";
  CHECK_FAILS(lockstep_settle(group), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_vote_any(group, 1, &result), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_more(group, 1, &result), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_resync(group), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_finish(group), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_leave(group, "x"), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_trouble(group, LOCKSTEP_ENVIRONMENT, "x"), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_note(group, "x"), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_issues(group, "x"), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_poke(group), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_agree(agreement, "step", seen, build, NULL, &result, NULL, NULL),
              LOCKSTEP_BAD_INPUT, "a call of the main thread (");
  CHECK_FAILS(lockstep_prefetch(agreement, "step", seen), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_audit(agreement, "step", seen, NULL, NULL), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK_FAILS(lockstep_agreement_create(group, "x", NULL, &agreement), LOCKSTEP_BAD_INPUT, kSaid);
  CHECK(lockstep_busy(group, 1) == LOCKSTEP_OK);
  CHECK(lockstep_stalls(group) == LOCKSTEP_OK);
  CHECK(lockstep_group_rank(group) == rank);
  lockstep_agreement_free(context); /* is kept */
  lockstep_observation_free(seen);
  return NULL;
}

static void on_another_thread(void* (*body)(void*), void* context) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, body, context) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static int build_beside_a_thread(void* context, int entry, const lockstep_decision* decision,
                                 lockstep_fingerprint* program, lockstep_built* built) {
  struct builds builds = {0, -1, 0, "", ""};
  on_another_thread(second_thread, context);
  return build(&builds, entry, decision, program, built);
}

static void* settles(void* context) {
  (void)context;
  CHECK(lockstep_settle(group) == LOCKSTEP_OK);
  return NULL;
}

static void a_call_while_another_threads_is_under_way_is_refused(void) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = make_observation();
  int call, entry = -1, is_new = -1;
  CHECK(lockstep_agreement_create(group, "threads", NULL, &agreement) == LOCKSTEP_OK);
  for (call = 0; call < 3; ++call) {
    set(seen, 4 + rank, 1, 3);
    CHECK(lockstep_agree(agreement, "step", seen, build_beside_a_thread, agreement, &entry, &is_new,
                         NULL) == LOCKSTEP_OK);
    CHECK(entry == 0 && is_new == (call == 0));
    on_another_thread(settles, NULL); /* nothing is under way */
  }
  CHECK(lockstep_settle(group) == LOCKSTEP_OK);
  lockstep_observation_free(seen);
  lockstep_agreement_free(agreement);
}

int main(int argc, char** argv) {
  lockstep_agreement* agreement = NULL;
  open_group(argc, argv);
  agreement_settles_on_one_dynamic_version();
  what_a_rank_has_not_tested_is_told_to_all();
  past_the_limit_calls_fall_back();
  a_frame_settles();
  fields_are_joined();
  an_error_of_one_rank_is_every_ranks();
  votes_are_joint();
  audit_finds_and_stops();
  other_configurations_are_refused_on_all();
  wrong_arguments_are_one_clear_sentence();
  a_build_that_calls_a_collective_function_is_refused();
  a_call_while_another_threads_is_under_way_is_refused();
  alone(agreement_settles_on_one_dynamic_version);
  alone(what_a_rank_has_not_tested_is_told_to_all);
  CHECK(!lockstep_agreement_create(group, "left over", NULL, &agreement));
  CHECK(!lockstep_finish(group));
  a_group_that_is_over_says_so(agreement);
  say_well("capi_test");
  return 0;
}
