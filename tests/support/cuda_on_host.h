// CUDA kernels as functions of this processor, so that their text can be run without a GPU. This
// file is put in front of a unit of CUDA text, and both are compiled by the host compiler. Blocks
// run one after the other. The threads of a block are fibers that take turns at barriers, or loops
// if a kernel has no barriers. Blocks and threads run in rising or falling order, as the caller
// asks: a kernel whose result depends on which thread is first gives two results.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <tuple>
#include <type_traits>

#include <setjmp.h>
#include <ucontext.h>

struct Dim {
  unsigned x = 0;
};
static Dim blockIdx, threadIdx, gridDim, blockDim;

#define __global__
#define __device__
#define __launch_bounds__(threads)
#define __shared__ static
#define __syncthreads() cuda_on_host::barrier()
#define __int_as_float(bits) std::bit_cast<float>(bits)
#define __float_as_uint(x) std::bit_cast<unsigned>(x)
#define __uint_as_float(bits) std::bit_cast<float>(bits)
#define __longlong_as_double(bits) std::bit_cast<double>(bits)

namespace {
namespace cuda_on_host {

constexpr unsigned kThreads = 256;
constexpr unsigned long kStack = 64 * 1024;

struct Fiber {
  ~Fiber() { delete[] stack; }
  ucontext_t start;
  jmp_buf place;
  char* stack = nullptr;  // kept while the kernels are loaded
  bool started = false, done = false;
};

struct Block {
  ucontext_t unused;
  jmp_buf scheduler;
  Fiber fibers[kThreads];
  unsigned current = 0;
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
};
Block block;

// A context is entered once; from then on the fiber is resumed by jumps, which unlike contexts need
// no system call.
void barrier() {
  if (_setjmp(block.fibers[block.current].place) == 0) _longjmp(block.scheduler, 1);
}

void run_fiber() {
  block.body(block.argument);
  block.fibers[block.current].done = true;
  _longjmp(block.scheduler, 1);
}

/// Runs the current thread up to its next barrier or its end.
__attribute__((noinline)) void resume() {
  Fiber& fiber = block.fibers[block.current];
  if (_setjmp(block.scheduler) != 0) return;
  if (fiber.started) _longjmp(fiber.place, 1);
  fiber.started = true;
  swapcontext(&block.unused, &fiber.start);
}

void prepare(Fiber& fiber) {
  if (!fiber.stack) {
    fiber.stack = new char[kStack];
    getcontext(&fiber.start);
  }
  fiber.started = fiber.done = false;
  fiber.start.uc_stack.ss_sp = fiber.stack;
  fiber.start.uc_stack.ss_size = kStack;
  fiber.start.uc_link = nullptr;
  makecontext(&fiber.start, run_fiber, 0);
}

/// Runs all threads up to their next barrier or their end, again and again. Returns false if some
/// threads of the block end while others wait at a barrier.
bool run_block(bool down) {
  for (Fiber& fiber : block.fibers) prepare(fiber);
  for (;;) {
    unsigned done = 0;
    for (unsigned i = 0; i < kThreads; ++i) {
      block.current = down ? kThreads - 1 - i : i;
      threadIdx.x = block.current;
      resume();
      done += block.fibers[block.current].done ? 1 : 0;
    }
    if (done == kThreads) return true;
    if (done != 0) return false;
  }
}

template <class... P>
struct Call {
  void (*kernel)(P...);
  void* const* buffers;
  const long* numbers;

  template <class T>
  T take(int& buffer, int& number) const {
    if constexpr (std::is_pointer_v<T>)
      return static_cast<T>(buffers[buffer++]);
    else
      return numbers[number++];
  }
  void operator()() const {
    int buffer = 0, number = 0;
    // Braces: elements are evaluated from left to right.
    std::tuple<P...> arguments{take<P>(buffer, number)...};
    std::apply(kernel, arguments);
  }
};

/// Returns for each pointer parameter (pointers come first): 'w' if the kernel may write, 'r' if it
/// only reads.
template <class... P>
constexpr auto accesses(void (*)(P...)) {
  return std::array<char, sizeof...(P) + 1>{
      (std::is_pointer_v<P> ? std::is_const_v<std::remove_pointer_t<P>> ? 'r' : 'w' : '\0')...};
}

/// Number of parameters, and number of pointers among them, which come first.
template <class... P>
constexpr int parameters(void (*)(P...)) {
  return sizeof...(P);
}
template <class... P>
constexpr int pointers(void (*)(P...)) {
  return (0 + ... + (std::is_pointer_v<P> ? 1 : 0));
}

/// Returns 0, or 1 if threads of a block do not reach the same barriers.
template <class... P>
int launch(void (*kernel)(P...), bool barriers, void* const* buffers, const long* numbers,
           long blocks, bool down) {
  Call<P...> call{kernel, buffers, numbers};
  gridDim.x = static_cast<unsigned>(blocks);
  blockDim.x = kThreads;
  block.body = [](void* at) { (*static_cast<Call<P...>*>(at))(); };
  block.argument = &call;
  for (long b = 0; b < blocks; ++b) {
    blockIdx.x = static_cast<unsigned>(down ? blocks - 1 - b : b);
    if (barriers) {
      if (!run_block(down)) return 1;
      continue;
    }
    for (unsigned i = 0; i < kThreads; ++i) {
      threadIdx.x = down ? kThreads - 1 - i : i;
      call();
    }
  }
  return 0;
}

}  // namespace cuda_on_host
}  // namespace
