#include "fiber.h"

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include <ucontext.h>

namespace lockstep::fuzz {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;  // Touched pages only take memory.

using Stack = std::unique_ptr<std::byte[]>;

/// Stacks of fibers that are over, for those to come.
std::vector<Stack>& idle_stacks() {
  thread_local std::vector<Stack> stacks;
  return stacks;
}

Stack take_stack() {
  auto& idle = idle_stacks();
  if (idle.empty()) return Stack(new std::byte[kStackBytes]);
  Stack stack = std::move(idle.back());
  idle.pop_back();
  return stack;
}

}  // namespace

struct Fiber::Context {
  std::function<void()> body;
  Stack stack;
  ucontext_t own{}, caller{};
  bool ended = false;

  static void enter(std::uint32_t high, std::uint32_t low) {
    auto* self = reinterpret_cast<Context*>(std::uintptr_t{high} << 32 | low);
    self->body();
    self->ended = true;
    swapcontext(&self->own, &self->caller);
  }
};

Fiber::Fiber(std::function<void()> body) : context_(std::make_unique<Context>()) {
  context_->body = std::move(body);
  context_->stack = take_stack();
  getcontext(&context_->own);
  context_->own.uc_stack.ss_sp = context_->stack.get();
  context_->own.uc_stack.ss_size = kStackBytes;
  const auto at = reinterpret_cast<std::uintptr_t>(context_.get());
  makecontext(&context_->own, reinterpret_cast<void (*)()>(&Context::enter), 2,
              static_cast<std::uint32_t>(at >> 32), static_cast<std::uint32_t>(at));
}

Fiber::~Fiber() {
  if (!context_->ended) std::abort();
  idle_stacks().push_back(std::move(context_->stack));
}

void Fiber::resume() { swapcontext(&context_->caller, &context_->own); }
void Fiber::yield() { swapcontext(&context_->own, &context_->caller); }
bool Fiber::ended() const { return context_->ended; }

}  // namespace lockstep::fuzz
