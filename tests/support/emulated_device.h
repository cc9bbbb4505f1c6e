// This processor in place of a GPU, for tests: runs the text of CUDA kernels (cuda_on_host.h). It
// shows that text and runtime are right, not that a GPU runs them. It counts allocations, runs out
// of memory and fails on request. Work is done at once. But the result of a collective on the other
// stream appears only after a wait for it, and memory that both streams use without an order
// between them is an error.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "access_order.h"

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/compile/codegen/program.h>
#include <lockstep/worker/compile/device/device.h>
#include <lockstep/worker/compile/execution/loaded_object.h>

namespace lockstep::worker {

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice();
  ~EmulatedDevice() override;
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const std::string& architecture() const override { return architecture_; }
  [[nodiscard]] int ordinal() const override { return 0; }
  [[nodiscard]] const std::string& unit_name() const override { return unit_name_; }
  [[nodiscard]] const std::string& product_identity() const override { return product_identity_; }
  /// Null: there is no stream that a library could use.
  [[nodiscard]] void* stream(DeviceStream) const override { return nullptr; }
  Result<std::optional<DeviceAddress>> allocate(std::size_t bytes) override;
  Result<void> free(DeviceAddress memory) override;
  Result<void> share() override;
  [[nodiscard]] bool shared() const override { return shared_; }
  Result<void> upload(DeviceAddress to, const void* from, std::size_t bytes) override;
  Result<void> download(void* to, DeviceAddress from, std::size_t bytes) override;
  Result<DeviceModule> load(const Bytes& object) override;
  Result<DeviceKernel> kernel(DeviceModule module, const std::string& name) override;
  void unload(DeviceModule module) override;
  /// Errors, besides requested ones: use of memory that was not allocated or is too small; threads
  /// of a block that reach different barriers.
  Result<void> launch(DeviceKernel kernel, std::int64_t blocks, int threads,
                      std::span<const DeviceAddress> buffers,
                      std::span<const std::int64_t> numbers) override;
  Result<void> zero(DeviceAddress to, std::size_t bytes) override;
  Result<void> copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) override;
  Result<void> multiply(const Product& product) override;
  Result<void> synchronise() override;
  Result<bool> idle() override;
  Result<DeviceEvent> mark(DeviceStream which) override;
  Result<void> follow(DeviceStream which, DeviceEvent event) override;
  void release(DeviceEvent event) override { events_.erase(event); }
  Result<void> begin_recording() override;
  Result<DeviceRecording> end_recording() override;
  Result<void> launch(DeviceRecording recording) override;
  void destroy(DeviceRecording recording) override { recordings_.erase(recording); }

  /// Puts a collective between `size` ranks on stream Ranks. `exchange` carries it out at once,
  /// into another buffer.
  using Exchange = std::function<Result<void>(const collectives::Collective&)>;
  Result<void> exchange(const collectives::Collective& collective, int size,
                        const Exchange& exchange);

  /// Runs threads and blocks in falling order from now on.
  void set_down(bool down) { down_ = down; }
  void set_capacity(std::size_t bytes) { capacity_ = bytes; }
  /// The n-th call from now on fails, counted from 0; frees do not count.
  void fail_call(int n) { fail_at_ = calls_ + n; }
  [[nodiscard]] int calls() const { return calls_; }
  /// Launches and products that were not recorded, and launches of recordings.
  [[nodiscard]] int starts() const { return starts_; }
  /// Number of starts() while a collective was under way.
  [[nodiscard]] int overlaps() const { return overlaps_; }
  [[nodiscard]] int uploads() const { return uploads_; }
  [[nodiscard]] int downloads() const { return downloads_; }
  /// Number of calls of idle().
  [[nodiscard]] int waits() const { return waits_; }
  [[nodiscard]] std::size_t live_bytes() const { return live_; }
  /// Describes the first memory that both streams used without an order between them; empty: none.
  [[nodiscard]] const std::string& disorder() const { return disorder_; }
  [[nodiscard]] std::size_t events() const { return events_.size(); }
  [[nodiscard]] std::size_t modules() const { return modules_.size(); }
  [[nodiscard]] std::size_t recordings() const { return recordings_.size(); }

 private:
  using Access = AccessOrder::Access;
  using Body = std::function<Result<void>()>;
  struct Work {
    std::vector<Access> accesses;
    Body body;
  };
  static std::vector<Access> access(DeviceAddress at, std::size_t bytes, bool writes) {
    return {{static_cast<std::uint64_t>(at), bytes, writes}};
  }
  Result<void> called(const char* call);
  /// Like called(), for a call that is not allowed in a recording.
  Result<void> called_unrecorded(const char* call);
  Result<void> flawed(Status status);
  Result<void> within(DeviceAddress memory, std::size_t bytes) const;
  /// Fails unless `memory` holds that many elements; any address will do for 0 elements.
  Result<void> holds(DeviceAddress memory, std::int64_t elements, DType dtype) const;
  /// Number of allocated bytes from this address on; 0 if it is not allocated.
  [[nodiscard]] std::size_t left_at(DeviceAddress memory) const;
  /// Does the work now, or records it.
  Result<void> start(const char* call, std::vector<Access> accesses, Body body);
  Result<void> start(const Work& work);
  void count_start() {
    starts_ += recording_ ? 0 : 1;
    overlaps_ += recording_ || late_.empty() ? 0 : 1;
  }
  Result<void> put(DeviceStream stream, std::span<const Access> accesses);
  Result<void> wait();
  /// Writes the results of collectives up to number `until`.
  void deliver(std::uint64_t until);
  struct Late {
    std::uint64_t number;
    DeviceAddress to;
    std::vector<std::byte> result;
  };
  struct Event {
    AccessOrder::Time time;
    std::uint64_t exchanged = 0;
  };
  /// Lies between two pages without access, at the end of the first ones: an access beyond ends the
  /// test.
  struct Memory {
    std::shared_ptr<void> pages;
    std::size_t size = 0;
  };
  std::string name_ = "rank 1's emulated device", architecture_ = "this processor";
  std::string unit_name_ = "emulated unit", product_identity_ = "emulated products";
  std::map<DeviceAddress, Memory> memory_;
  std::map<DeviceModule, std::unique_ptr<LoadedObject>> modules_;
  std::size_t live_ = 0, capacity_ = ~std::size_t{0};
  int calls_ = 0, fail_at_ = -1;
  int starts_ = 0, overlaps_ = 0, uploads_ = 0, downloads_ = 0, waits_ = 0;
  bool down_ = false, shared_ = false;
  std::map<DeviceRecording, std::vector<Work>> recordings_;
  std::uint64_t next_recording_ = 1;
  std::map<DeviceKernel, std::string> accesses_;  // per parameter, 'r' or 'w'
  AccessOrder order_;
  std::string disorder_;  // the first one; kept to the end
  std::deque<Late> late_;
  std::uint64_t exchanged_ = 0, next_event_ = 1;
  std::map<DeviceEvent, Event> events_;
  // State of the recording under way.
  bool recording_ = false;
  std::vector<Work> recorded_;
  std::optional<Status> flaw_;
  std::vector<DeviceAddress> freed_late_;
};

/// A program whose kernels are one unit, so that the compiler reads cuda_on_host.h once, and that
/// unit built.
struct EmulatedProgram {
  Program program;
  std::vector<Bytes> units;
};
/// Requires a program for CUDA. Errors: as Toolchain::build.
[[nodiscard]] Result<EmulatedProgram> build_emulated(Program program);

}  // namespace lockstep::worker
