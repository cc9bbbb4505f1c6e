/* Checks of the C tests: the first that fails ends the process, and with it the job, with code 1.
 */
#ifndef LOCKSTEP_TESTS_CHECK_H
#define LOCKSTEP_TESTS_CHECK_H

#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "%s:%d: not so: %s\nlast error: %s\n", __FILE__, __LINE__, #condition, \
              lockstep_report_text(lockstep_last_error()));                                  \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

/* The call fails with `code`, and the report says `words`. */
#define CHECK_FAILS(call, code, words)                                                           \
  do {                                                                                           \
    const int got_ = (call);                                                                     \
    const char* text_ = lockstep_report_text(lockstep_last_error());                             \
    if (got_ != (code) || lockstep_report_code(lockstep_last_error()) != (code) ||               \
        strstr(text_, (words)) == NULL) {                                                        \
      fprintf(stderr, "%s:%d: %s gave %s (%s), not %s with \"%s\"\n", __FILE__, __LINE__, #call, \
              lockstep_code_name(got_), text_, lockstep_code_name(code), (words));               \
      exit(1);                                                                                   \
    }                                                                                            \
  } while (0)

#endif
