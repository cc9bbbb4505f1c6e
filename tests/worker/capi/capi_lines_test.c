/* Lines from C: two ranks in one process, which see each other's posts. */
#include "check.h"
#include <lockstep_lines.h>

static int issue(lockstep_lines* lines, int group, int64_t elements, uint64_t* number) {
  lockstep_operation operation;
  memset(&operation, 0, sizeof operation);
  operation.struct_size = sizeof operation;
  operation.kind = "all_reduce";
  operation.dtype = "f32";
  operation.reduction = "sum";
  operation.place = "train.c:12";
  operation.root = -1;
  operation.needs = LOCKSTEP_NEEDS_ALL;
  operation.tensors = operation.ndim = 1;
  operation.elements = operation.shape = &elements;
  return lockstep_lines_issue(lines, group, &operation, number);
}

static int tell(lockstep_lines* lines, int64_t size) {
  lockstep_operation what;
  memset(&what, 0, sizeof what);
  what.struct_size = sizeof what;
  what.kind = "frame";
  what.root = -1;
  what.to_count = 1;
  what.to = &size;
  return lockstep_lines_tell(lines, lockstep_fingerprint_of("step", 4), &what);
}

int main(void) {
  lockstep_lines* lines[2] = {NULL, NULL};
  const char* places[2];
  const int32_t members[2] = {0, 1};
  const lockstep_fingerprint key = lockstep_fingerprint_of("world", 5);
  int group[2] = {-1, -1}, rank;
  int32_t state = 9;
  const char* text = NULL;
  const lockstep_fingerprint tale = lockstep_fingerprint_of("step", 4);
  lockstep_told told;
  uint64_t number = 9;
  int32_t head = 9;
  size_t seen = 0;
  lockstep_wait* wait = NULL;
  memset(&told, 0, sizeof told);
  told.struct_size = sizeof told;
  for (rank = 0; rank < 2; ++rank) {
    CHECK(lockstep_lines_open(rank, &lines[rank]) == LOCKSTEP_OK);
    places[rank] = lockstep_lines_place(lines[rank]);
  }
  for (rank = 0; rank < 2; ++rank) {
    CHECK(lockstep_lines_join(lines[rank], places, 2, &seen) == LOCKSTEP_OK && seen == 2);
    CHECK(lockstep_lines_group(lines[rank], key, members, 2, "the world", &group[rank]) ==
          LOCKSTEP_OK);
  }
  for (rank = 0; rank < 2; ++rank) {
    CHECK(issue(lines[rank], group[rank], 4, &number) == LOCKSTEP_OK && number == 0);
    lockstep_lines_issued(lines[rank], group[rank]);
  }
  CHECK(issue(lines[0], group[0], 5, &number) == LOCKSTEP_OK && number == 1);
  CHECK(lockstep_wait_begin(lines[0], group[0], number, &wait) == LOCKSTEP_OK);
  CHECK(lockstep_wait_look(wait) == LOCKSTEP_OK);
  CHECK(issue(lines[1], group[1], 3, NULL) == LOCKSTEP_GRAPH_DIVERGENCE);
  CHECK(strstr(lockstep_report_message(lockstep_last_error()), "operation 2 of the world") != NULL);
  CHECK(lockstep_wait_look(wait) == LOCKSTEP_GRAPH_DIVERGENCE);
  lockstep_wait_end(wait);

  CHECK(lockstep_lines_head(lines[1], &head) == LOCKSTEP_OK && head == 0);
  CHECK(lockstep_lines_meet(lines[1], members, 2, "nowhere", "sixteen bytes or more", 1) ==
        LOCKSTEP_BAD_INPUT);
  CHECK(lockstep_lines_meet(lines[1], members, 2, "127.0.0.1:4711", "short", 1) != LOCKSTEP_OK);
  CHECK(lockstep_lines_meet(lines[1], NULL, 2, "127.0.0.1:4711", "sixteen bytes or more", 1) ==
        LOCKSTEP_BAD_INPUT);
  CHECK(lockstep_lines_head(NULL, &head) == LOCKSTEP_BAD_INPUT);

  CHECK(tell(lines[0], 7) == LOCKSTEP_OK && tell(lines[0], 9) == LOCKSTEP_OK);
  CHECK(tell(lines[1], 8) == LOCKSTEP_OK); /* it differs, and nobody minds */
  CHECK(lockstep_lines_told(lines[1], tale, 0, 0, &told) == LOCKSTEP_OK && told.times == 2);
  CHECK(told.to_count == 0 && strcmp(told.kind, "") == 0);
  CHECK(lockstep_lines_told(lines[1], tale, 0, 1, &told) == LOCKSTEP_OK && told.to[0] == 7);
  CHECK(lockstep_lines_told(lines[1], tale, 0, 2, &told) == LOCKSTEP_OK && told.times == 2);
  CHECK(strcmp(told.kind, "frame") == 0 && told.to_count == 1 && told.to[0] == 9);
  CHECK(lockstep_lines_told(lines[1], tale, 0, 3, &told) == LOCKSTEP_OK && told.to_count == 0);
  CHECK(lockstep_lines_told(lines[1], tale, 1, 1, &told) == LOCKSTEP_OK && told.times == 1);
  CHECK(lockstep_lines_told(lines[1], tale, 5, 1, &told) == LOCKSTEP_OK && told.times == 0);
  CHECK(lockstep_lines_told(lines[1], tale, -1, 1, &told) == LOCKSTEP_BAD_INPUT);
  CHECK(lockstep_lines_told(lines[1], tale, 0, 1, NULL) == LOCKSTEP_BAD_INPUT);
  CHECK(lockstep_lines_apart(lines[1]) == 0 && lockstep_lines_apart_text(lines[1], 1) == NULL);
  CHECK(lockstep_lines_apart(NULL) == 0 && lockstep_lines_apart_text(NULL, 1) == NULL);
  CHECK(lockstep_lines_tell(NULL, tale, NULL) == LOCKSTEP_BAD_INPUT);

  CHECK(issue(NULL, 0, 3, NULL) == LOCKSTEP_BAD_INPUT);
  CHECK(issue(lines[0], 7, 3, NULL) == LOCKSTEP_BAD_INPUT);
  CHECK(lockstep_lines_issue(lines[0], 0, NULL, NULL) == LOCKSTEP_BAD_INPUT);
  CHECK(lockstep_lines_group(lines[0], key, members + 1, 1, "of others", &rank) ==
        LOCKSTEP_BAD_INPUT);
  CHECK(lockstep_lines_open(-1, &lines[0]) == LOCKSTEP_BAD_INPUT);
  CHECK(lockstep_wait_look(NULL) == LOCKSTEP_BAD_INPUT);
  lockstep_wait_end(NULL);
  lockstep_lines_gone(NULL, "nobody");
  CHECK(lockstep_lines_peer(lines[0], 1, &state, &text) == LOCKSTEP_OK);
  CHECK(state == LOCKSTEP_PEER_RUNNING && strcmp(text, "") == 0);
  CHECK(lockstep_lines_peer(lines[0], 5, &state, &text) == LOCKSTEP_OK);
  CHECK(state == LOCKSTEP_PEER_UNSEEN);
  lockstep_lines_gone(lines[1], "no label");
  CHECK(lockstep_lines_peer(lines[0], 1, &state, &text) == LOCKSTEP_OK);
  CHECK(state == LOCKSTEP_PEER_GONE && strcmp(text, "no label") == 0);
  lockstep_lines_finish(lines[0]);
  CHECK(lockstep_lines_peer(lines[1], 0, &state, &text) == LOCKSTEP_OK);
  CHECK(state == LOCKSTEP_PEER_FINISHED && strcmp(text, "") == 0);
  CHECK(lockstep_lines_peer(NULL, 1, &state, &text) == LOCKSTEP_BAD_INPUT);
  CHECK(lockstep_lines_peer(lines[0], -1, &state, &text) == LOCKSTEP_BAD_INPUT);
  CHECK(lockstep_lines_peer(lines[0], 1, NULL, &text) == LOCKSTEP_BAD_INPUT);
  lockstep_lines_take_from_any(NULL);
  for (rank = 0; rank < 2; ++rank) {
    lockstep_lines_threads_beside(lines[rank], 1);
    lockstep_lines_take_from_any(lines[rank]);
    lockstep_lines_finish(lines[rank]);
    lockstep_lines_free(lines[rank]);
  }
  puts("lines: passed");
  return 0;
}
