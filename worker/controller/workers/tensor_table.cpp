#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/controller/workers/tensor_table.h>

namespace lockstep::worker {

Result<void> TensorTable::add(Handle handle, Slot slot) {
  reserve(after(handle, 1));
  const std::string label = slot.label;
  if (slots_.try_emplace(handle, std::move(slot)).second) return {};
  return bad_input(fmt::format("{} is given the handle {}, which another tensor has", label,
                               static_cast<std::uint64_t>(handle)));
}

TensorTable::Slot& TensorTable::shared(Handle handle, const std::string& label) {
  reserve(after(handle, 1));
  Slot& slot = slots_[handle];
  if (slot.label.empty()) slot.label = label;
  return slot;
}

TensorTable::Slot* TensorTable::find(Handle handle) {
  const auto found = slots_.find(handle);
  return found == slots_.end() ? nullptr : &found->second;
}

Result<Array> TensorTable::array(Handle handle) {
  const Slot* slot = find(handle);
  if (slot == nullptr)
    return bad_input(
        fmt::format("the workers hold no tensor {}; it was dropped, or "
                    "comes from another job",
                    static_cast<std::uint64_t>(handle)));
  if (slot->failure) return *slot->failure;
  return slot->array;
}

std::vector<HeldTensor> TensorTable::held() const {
  std::vector<HeldTensor> out;
  for (const auto& [handle, slot] : slots_)
    if (!slot.failure) out.push_back({handle, slot.label, slot.array.dtype()});
  return out;
}

}  // namespace lockstep::worker
