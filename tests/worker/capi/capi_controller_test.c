/* A controller from C where no worker is: every function refuses what makes no sense in one sentence.
 * With workers: tests/worker/python/controller_test.py, by the same functions. */
#include <lockstep_controller.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "capi_controller_test: FAILED: %s: %s\n", what,
          lockstep_report_text(lockstep_last_error()));
  exit(1);
}

static void refused(int code, const char* part, const char* what) {
  expect(code == LOCKSTEP_BAD_INPUT, what);
  expect(strstr(lockstep_report_message(lockstep_last_error()), part) != NULL, what);
}

int main(void) {
  lockstep_controller* controller = NULL;
  lockstep_tensors* tensors = NULL;
  lockstep_program* program = NULL;
  lockstep_fetched* fetched = NULL;
  const int64_t sizes[1] = {-1};
  const lockstep_array array = {LOCKSTEP_F32, 1, sizes, NULL};
  const lockstep_value value = {"x", LOCKSTEP_TENSOR, NULL, 0, 0, 0};

  expect(lockstep_controller_connect("no such file", 1, NULL, NULL, &controller) ==
             LOCKSTEP_ENVIRONMENT, "connect to no file");
  expect(strstr(lockstep_report_message(lockstep_last_error()), "no such file") != NULL, "its name");
  expect(controller == NULL, "a controller of no workers");
  refused(lockstep_controller_connect("1.2.3.4:1", -1, NULL, NULL, &controller), "deadline_seconds",
          "a deadline below 0");
  refused(lockstep_controller_connect("1.2.3.4:1", 1, NULL, NULL, NULL), "NULL", "no place");
  expect(lockstep_controller_workers(NULL) == -1, "workers of NULL");
  refused(lockstep_controller_settle(NULL), "lockstep_controller_connect()", "settle of NULL");
  refused(lockstep_controller_finish(NULL), "lockstep_controller_connect()", "finish of NULL");
  refused(lockstep_controller_put(NULL, &array, 1, NULL, &tensors), "controller is NULL", "put");
  refused(lockstep_controller_read(NULL, "x", NULL, 0, &tensors), "controller is NULL", "read");
  refused(lockstep_controller_take_over(NULL, &tensors), "controller is NULL", "take_over");
  refused(lockstep_controller_fetch(NULL, NULL, 0, &fetched), "controller is NULL", "fetch");
  refused(lockstep_controller_sizes(NULL, NULL, &fetched), "controller is NULL", "sizes");
  refused(lockstep_controller_load(NULL, "x", &program), "controller is NULL", "load");
  refused(lockstep_program_call(NULL, &value, 1, &tensors), "program", "a call of NULL");
  refused(lockstep_tensors_one(NULL, 0, &tensors), "no such tensor", "one of NULL");
  expect(lockstep_tensors_count(NULL) == 0 && lockstep_tensors_dtype(NULL, 0) == -1 &&
             lockstep_tensors_name(NULL, 0)[0] == 0 && lockstep_program_text(NULL)[0] == 0 &&
             lockstep_fetched_array(NULL).elements == NULL, "what NULL has");
  lockstep_controller_free(NULL), lockstep_tensors_free(NULL), lockstep_program_free(NULL);
  lockstep_fetched_free(NULL);
  return 0;
}
