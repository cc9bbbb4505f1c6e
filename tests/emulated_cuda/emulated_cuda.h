// CUDA's libraries as far as this project uses them, on this processor, for tests of whole
// processes where there is no GPU: libcuda.so.1, and libnvrtc and libcublas of CUDA 12 and 13, in a
// folder of their own, which a test puts first in LD_LIBRARY_PATH. What they show is that the code
// that calls CUDA calls it rightly, not that a GPU does what it is told. They say so on stderr, in
// the device's UUID and in versions. Never installed.
//
// The environment of the process that loads them:
//   EMULATED_CUDA_DEVICES=2              devices; 1
//   EMULATED_CUDA_ARCH=sm_80             what they are; sm_90
//   EMULATED_CUDA_VERSION=12080          of CUDA, as the driver has it; the toolkit's at building
//   EMULATED_CUDA_MEMORY=1048576         bytes on each; 4 GiB
//   EMULATED_CUDA_SEED=7                 of how long work lies until it is done; 1
//   EMULATED_CUDA_FAIL=cuLaunchKernel:7  that function's 7th call fails. "kernel:7": the 7th kernel
//                                        that runs, which is found out by a later call
#pragma once

#include <cstddef>

extern "C" {

/// Of each of the three libraries, for what is called in it. The n-th call from now on fails, nth
/// counted from 1; 0: none does. A call that gives something back or waits fails after having done
/// so.
void emulated_cuda_fail(const char* call, int nth);
/// All functions that were called since the last emulated_cuda_fail, and how often.
void emulated_cuda_calls(void (*each)(void* to, const char* call, int count), void* to);

/// Of the driver. Bytes on each device from now on.
void emulated_cuda_set_memory(std::size_t bytes);
/// Bytes of memory that are not freed, on all devices, once all work is done.
std::size_t emulated_cuda_live_bytes();
/// Bytes that were freed and that the process keeps from others.
std::size_t emulated_cuda_kept_bytes();
/// Modules, streams, events, graphs and holders of contexts that are left.
std::size_t emulated_cuda_live_objects();
/// What the next host function on a stream does with memory; 0 bytes: all from there to the end of
/// its block.
void emulated_cuda_touch(void* stream, const void* at, std::size_t bytes, bool writes);
/// Whether there are so many bytes of one device's memory.
bool emulated_cuda_within(const void* at, std::size_t bytes);
}
