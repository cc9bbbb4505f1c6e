/* A controller, for C and every language that can call C: one process that has the workers of a job
 * (`lockstep worker`) run saved programs on tensors that stay on the workers. Results, texts and
 * reports are as in lockstep.h.
 *
 * A failure on one worker is a failure on all, and is the error of the next function that is
 * called. After such an error the next call works, unless the workers have ended (GONE, STUCK,
 * RANK_LOST, ENVIRONMENT). The only functions that wait are lockstep_controller_connect(), _load(),
 * _read(), _fetch(), _sizes(), _settle() and _finish(), and any other if too many commands are
 * queued.
 *
 * Threads: a controller, with its programs, takes one call at a time, from any thread. A call made
 * during a call of another thread fails with BAD_INPUT, which names both threads, and changes
 * nothing: a controller or a program that it was to free is not freed. Tensors may be freed, and
 * fetched tensors read, on any thread. */
#ifndef LOCKSTEP_CONTROLLER_H
#define LOCKSTEP_CONTROLLER_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lockstep_controller lockstep_controller;
/* Tensors of the workers, each with a name. */
typedef struct lockstep_tensors lockstep_tensors;
typedef struct lockstep_program lockstep_program;
/* A tensor that has been fetched to this process. */
typedef struct lockstep_fetched lockstep_fetched;

/* A tensor of this process: row-major elements, one byte per bool. It is read only during the call
 * that takes it. */
typedef struct lockstep_array {
  lockstep_dtype dtype;
  uint32_t ndim;
  const int64_t* sizes;
  const void* elements;
} lockstep_array;

/* `where`: the address file of the workers, or an address such as "10.0.0.1:4700", with the secret
 * of LOCKSTEP_TOKEN or LOCKSTEP_TOKEN_FILE; NULL: the file in the cache directory.
 * `deadline_seconds`: how long worker 0 may send nothing during a wait; 0 means 60. `interrupted`:
 * called with `context` a few times a second during a wait; a value other than 0 ends the wait with
 * GONE, while the workers go on with their commands; NULL: no such function. Errors: ENVIRONMENT
 * (no file, no worker listens), VERSION (secrets or versions differ), BAD_INPUT (not an address;
 * the workers have another controller), STUCK. */
int lockstep_controller_connect(const char* where, double deadline_seconds,
                                int (*interrupted)(void* context), void* context,
                                lockstep_controller** controller);
/* Number of workers; -1 if `controller` is NULL. */
int lockstep_controller_workers(const lockstep_controller* controller);
/* Ends the workers once they have carried out all commands. */
int lockstep_controller_finish(lockstep_controller* controller);
/* Waits until the workers have carried out all commands. */
int lockstep_controller_settle(lockstep_controller* controller);
/* Frees the controller. The workers keep their tensors for the next controller. Tensors and
 * programs of this controller become unusable, but must still be freed. */
void lockstep_controller_free(lockstep_controller* controller);

/* Puts a tensor on the workers. `each` has one tensor that all workers get (`count` is 1), or one
 * tensor per worker, of equal dtypes and numbers of dims. `label`: the name that a later controller
 * sees; NULL: "a tensor". Errors: BAD_INPUT. */
int lockstep_controller_put(lockstep_controller* controller, const lockstep_array* each,
                            size_t count, const char* label, lockstep_tensors** tensor);
/* Has each worker read tensors of a safetensors file; "{rank}" in `path` is replaced by the
 * worker's number. */
int lockstep_controller_read(lockstep_controller* controller, const char* path,
                             const char* const* names, size_t count, lockstep_tensors** tensors);
/* Returns the tensors that the workers held when this controller connected, named by their labels.
 * Works once. The workers free a tensor once its handle is freed. */
int lockstep_controller_take_over(lockstep_controller* controller, lockstep_tensors** tensors);

/* Number of tensors; 0 if `tensors` is NULL. They are in the order of their names; those of
 * lockstep_controller_take_over() are in the order in which they were made. */
size_t lockstep_tensors_count(const lockstep_tensors* tensors);
/* Name of a tensor; "": there is no such tensor. */
const char* lockstep_tensors_name(const lockstep_tensors* tensors, size_t index);
/* Dtype of a tensor; -1: there is no such tensor. */
int lockstep_tensors_dtype(const lockstep_tensors* tensors, size_t index);
/* Makes a new handle of one of the tensors. The old handle keeps the tensor, too. Errors:
 * BAD_INPUT. */
int lockstep_tensors_one(const lockstep_tensors* tensors, size_t index, lockstep_tensors** tensor);
/* Frees the handle. The workers free a tensor once no handle has it. */
void lockstep_tensors_free(lockstep_tensors* tensors);

/* Fetches the first of `tensors` from one worker. Errors: BAD_INPUT (there is no such worker, or
 * the tensor was not put there). */
int lockstep_controller_fetch(lockstep_controller* controller, const lockstep_tensors* tensors,
                              int worker, lockstep_fetched** fetched);
/* Fetches the sizes of the first of `tensors`, as an i64 tensor with a row for each worker. */
int lockstep_controller_sizes(lockstep_controller* controller, const lockstep_tensors* tensors,
                              lockstep_fetched** fetched);
/* Valid until `fetched` is freed. */
lockstep_array lockstep_fetched_array(const lockstep_fetched* fetched);
void lockstep_fetched_free(lockstep_fetched* fetched);

/* Reads a saved program (`frame.save()`, `lockstep trace --save`) here and sends it to the workers,
 * once. Errors: BAD_INPUT, VERSION. */
int lockstep_controller_load(lockstep_controller* controller, const char* path,
                             lockstep_program** program);
/* "step: n int, x f64 of 1 dim -> a f64, y f64" */
const char* lockstep_program_text(const lockstep_program* program);
void lockstep_program_free(lockstep_program* program);

/* One input of a call. */
typedef struct lockstep_value {
  const char* name;
  lockstep_kind kind;
  lockstep_tensors* tensor; /* for LOCKSTEP_TENSOR: the input is the first of these tensors */
  int moved;                /* 1: `tensor` is empty after the call, even a failed one; the workers
                               free the tensor during the run, if no other handle has it */
  int64_t integer;          /* for LOCKSTEP_INT and LOCKSTEP_BOOLEAN */
  double real;              /* for LOCKSTEP_FLOAT */
} lockstep_value;
/* Calls the program; `outputs` receives its outputs, by name. Does not wait for the run if all
 * entries of the program have the same outputs. Errors: BAD_INPUT, before anything is sent, if an
 * input is missing, unknown, or of another kind or dtype. */
int lockstep_program_call(lockstep_program* program, const lockstep_value* values, size_t count,
                          lockstep_tensors** outputs);

#ifdef __cplusplus
}
#endif
#endif
