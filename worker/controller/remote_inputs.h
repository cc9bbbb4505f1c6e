// The inputs of a call as sent to the workers: handles and numbers by the names of their sources.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/controller/messages/command.h>
#include <lockstep/worker/controller/remote_tensor.h>
#include <lockstep/worker/tensor/language/inputs.h>

namespace lockstep::worker {

/// Collects the inputs of a call during a FieldWalk and replaces them by an example: tensors become
/// small arrays of the process. So the example keeps the structure for a trace, and references to
/// the workers' tensors are released.
class RemoteInputs {
 public:
  explicit RemoteInputs(std::shared_ptr<DroppedHandles> dropped) : dropped_(std::move(dropped)) {}
  void enter_field(std::string_view name) { path_.enter_field(name); }
  void enter_index(std::size_t i) { path_.enter_index(i); }
  void enter_key(std::string_view key) { path_.enter_key(key); }
  void leave() { path_.leave(); }
  void length(std::size_t) {}
  void leaf(Tensor& tensor);
  void leaf(SymInt& n);
  void leaf(SymFloat& f);
  void leaf(std::int64_t& n) { add(Kind::Int, n); }
  void leaf(double& f);
  void leaf(bool& b) { add(Kind::Bool, b ? 1 : 0); }
  void leaf(RankKey& key);
  void leaf(Key& key);
  void leaf(FieldInput&) { fail("is a field, which"); }
  void leaf(OpaqueInput&) { fail("is an object, which"); }
  void keys(const std::vector<std::string_view>&) { fail("is a map whose order counts, which"); }

  /// The inputs in the order of the walk. Tensors of the process have no handle yet; they are in
  /// `own`.
  std::vector<CallInput> inputs;
  /// Tensors of the process, each with the number of its input.
  std::vector<std::pair<std::size_t, Array>> own;
  /// The first error: BadInput, for an input that frames of a controller do not take.
  std::optional<Status> failure;

  /// Key of what determines the structure of the outputs: names, kinds, bools.
  [[nodiscard]] std::string structure() const;
  /// Returns inputs_key() of these inputs.
  [[nodiscard]] std::string key() const;

 private:
  void add(Kind kind, std::int64_t number);
  void fail(std::string_view what);
  [[nodiscard]] std::string name() const { return path_.text().empty() ? "input" : path_.text(); }
  std::shared_ptr<DroppedHandles> dropped_;
  Path path_;
};

/// Walks the outputs of a traced function: every value that depends on a run must be a tensor.
/// Throws TraceUsageError.
class RemoteOutputs {
 public:
  void enter_field(std::string_view name) { path_.enter_field(name); }
  void enter_index(std::size_t i) { path_.enter_index(i); }
  void enter_key(std::string_view key) { path_.enter_key(key); }
  void leave() { path_.leave(); }
  void length(std::size_t) {}
  void keys(const std::vector<std::string_view>&) {}
  void leaf(const Tensor&) {}
  void leaf(const SymInt& n) { need_known(n.trace() != nullptr); }
  void leaf(const SymFloat& f) { need_known(f.traced()); }
  void leaf(const RankKey& key) { need_known(key.traced()); }
  void leaf(const Key& key) { need_known(key.traced()); }
  template <class T>
  void leaf(T&) {}

 private:
  void need_known(bool traced) const;
  Path path_;
};

/// Replaces traced tensors by the workers' tensors.
class RemoteFiller {
 public:
  explicit RemoteFiller(std::span<const Array> outputs) : outputs_(outputs) {}
  void enter_field(std::string_view) {}
  void enter_index(std::size_t) {}
  void enter_key(std::string_view) {}
  void leave() {}
  void length(std::size_t) {}
  void keys(const std::vector<std::string_view>&) {}
  void leaf(Tensor& tensor) { tensor = Tensor(outputs_[next_++]); }
  template <class T>
  void leaf(T&) {}

 private:
  std::span<const Array> outputs_;
  std::size_t next_ = 0;
};

}  // namespace lockstep::worker
