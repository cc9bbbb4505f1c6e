#include <chrono>
#include <cstring>
#include <map>
#include <utility>

#include "handle.h"
#include <fmt/format.h>
#include <lockstep_controller.h>

#include <lockstep/worker/controller/controller.h>

namespace worker = lockstep::worker;
using lockstep::bad_input;
using lockstep::DType;
using lockstep::Result;
using lockstep::capi::fail;
using lockstep::capi::guarded;
using worker::Array;
using worker::Tensor;

/// The controller is shared with its programs, which may outlive it: once it is freed, `*shared` is
/// null.
struct lockstep_controller {
  std::shared_ptr<std::unique_ptr<worker::Controller>> shared;
};
struct lockstep_tensors {
  std::vector<std::pair<std::string, Tensor>> named;
};
struct lockstep_program {
  std::shared_ptr<std::unique_ptr<worker::Controller>> controller;
  worker::RemoteProgram program;
  std::string text;
};
struct lockstep_fetched {
  Array array;
};

namespace {

constexpr std::size_t kMostDims = 64;

Result<Array> array_of(const lockstep_array& given) {
  const auto dtype = static_cast<int>(given.dtype);
  if (dtype < LOCKSTEP_BOOL || dtype > LOCKSTEP_F64)
    return bad_input(fmt::format("{} is no dtype", dtype));
  if (given.ndim > kMostDims || (given.ndim > 0 && given.sizes == nullptr))
    return bad_input("a tensor takes at most 64 sizes, and where they stand");
  std::vector<std::int64_t> sizes(given.sizes, given.sizes + given.ndim);
  std::int64_t bytes = static_cast<std::int64_t>(lockstep::dtype_size(static_cast<DType>(dtype)));
  for (const std::int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
      return bad_input("a tensor has sizes below 0, or more bytes than there are");
  if (bytes > 0 && given.elements == nullptr) return bad_input("elements is NULL");
  return Array::borrowed(static_cast<DType>(dtype), std::move(sizes), given.elements);
}

Result<worker::Controller*> controller_of(lockstep_controller* controller) {
  if (controller != nullptr) return controller->shared->get();
  return bad_input("controller is NULL; connect with lockstep_controller_connect()");
}

Result<const Tensor*> first_of(const lockstep_tensors* tensors) {
  if (tensors != nullptr && !tensors->named.empty()) return &tensors->named.front().second;
  return bad_input("there is no tensor; it may have moved into a call");
}

Result<worker::RemoteValue> value_of(const lockstep_value& value) {
  switch (value.kind) {
    case LOCKSTEP_INT:
      return worker::RemoteValue(value.integer);
    case LOCKSTEP_FLOAT:
      return worker::RemoteValue(value.real);
    case LOCKSTEP_BOOLEAN:
      return worker::RemoteValue(value.integer != 0);
    case LOCKSTEP_TENSOR:
      break;
  }
  if (value.kind != LOCKSTEP_TENSOR)
    return bad_input(fmt::format("{} is no kind of input", static_cast<int>(value.kind)));
  const auto tensor = first_of(value.tensor);
  if (!tensor) return tensor.error();
  return worker::RemoteValue(**tensor);
}

lockstep_tensors* tensors_of(std::map<std::string, Tensor> named) {
  auto out = std::make_unique<lockstep_tensors>();
  for (auto& [name, tensor] : named) out->named.emplace_back(name, std::move(tensor));
  return out.release();
}

}  // namespace

extern "C" {

int lockstep_controller_connect(const char* where, double deadline_seconds,
                                int (*interrupted)(void* context), void* context,
                                lockstep_controller** controller) {
  return guarded([&]() -> Result<void> {
    if (controller == nullptr) return bad_input("the address of the controller is NULL");
    if (!(deadline_seconds >= 0 && deadline_seconds <= 1e7))
      return bad_input("deadline_seconds is below 0 or above 10,000,000");
    worker::ControllerOptions options;
    if (deadline_seconds > 0)
      options.deadline = std::chrono::duration_cast<lockstep::Duration>(
          std::chrono::duration<double>(deadline_seconds));
    if (interrupted != nullptr) options.interrupted = [=] { return interrupted(context) != 0; };
    auto made = worker::Controller::connect(where == nullptr ? "" : where, options);
    if (!made) return made.error();
    *controller = new lockstep_controller{
        std::make_shared<std::unique_ptr<worker::Controller>>(*std::move(made))};
    return {};
  });
}

int lockstep_controller_workers(const lockstep_controller* controller) {
  return controller == nullptr ? -1 : (*controller->shared)->workers();
}

int lockstep_controller_finish(lockstep_controller* controller) {
  return guarded([&]() -> Result<void> {
    const auto made = controller_of(controller);
    return made ? (*made)->finish() : made.error();
  });
}

int lockstep_controller_settle(lockstep_controller* controller) {
  return guarded([&]() -> Result<void> {
    const auto made = controller_of(controller);
    return made ? (*made)->settle() : made.error();
  });
}

void lockstep_controller_free(lockstep_controller* controller) {
  if (controller == nullptr) return;
  {
    const auto turn = (*controller->shared)->enter("the end of the controller");
    if (!turn) return (void)fail(turn.error());  // not freed: the other call uses it
  }
  controller->shared->reset();
  delete controller;
}

int lockstep_controller_put(lockstep_controller* controller, const lockstep_array* each,
                            size_t count, const char* label, lockstep_tensors** tensor) {
  return guarded([&]() -> Result<void> {
    const auto made = controller_of(controller);
    if (!made) return made.error();
    if (each == nullptr || count == 0 || tensor == nullptr)
      return bad_input("there is no tensor to put, or no place for its handle");
    std::vector<Array> arrays;
    for (std::size_t i = 0; i < count; ++i) {
      auto array = array_of(each[i]);
      if (!array) return array.error();
      arrays.push_back(*std::move(array));
    }
    const std::string name = label == nullptr ? "a tensor" : label;
    auto put = count == 1 ? (*made)->put(arrays[0], name) : (*made)->put(arrays, name);
    if (!put) return put.error();
    *tensor = tensors_of({{name, *std::move(put)}});
    return {};
  });
}

int lockstep_controller_read(lockstep_controller* controller, const char* path,
                             const char* const* names, size_t count, lockstep_tensors** tensors) {
  return guarded([&]() -> Result<void> {
    const auto made = controller_of(controller);
    if (!made) return made.error();
    if (path == nullptr || (names == nullptr && count > 0) || tensors == nullptr)
      return bad_input("path, names or the place for the handle is NULL");
    auto read = (*made)->read(path, std::vector<std::string>(names, names + count));
    if (!read) return read.error();
    *tensors = tensors_of(*std::move(read));
    return {};
  });
}

int lockstep_controller_take_over(lockstep_controller* controller, lockstep_tensors** tensors) {
  return guarded([&]() -> Result<void> {
    const auto made = controller_of(controller);
    if (!made) return made.error();
    if (tensors == nullptr) return bad_input("the place for the handle is NULL");
    auto out = std::make_unique<lockstep_tensors>();
    for (worker::KeptTensor& kept : (*made)->take_over())
      out->named.emplace_back(kept.label, std::move(kept.tensor));
    *tensors = out.release();
    return {};
  });
}

size_t lockstep_tensors_count(const lockstep_tensors* tensors) {
  return tensors == nullptr ? 0 : tensors->named.size();
}

const char* lockstep_tensors_name(const lockstep_tensors* tensors, size_t index) {
  return index < lockstep_tensors_count(tensors) ? tensors->named[index].first.c_str() : "";
}

int lockstep_tensors_dtype(const lockstep_tensors* tensors, size_t index) {
  return index < lockstep_tensors_count(tensors)
             ? static_cast<int>(tensors->named[index].second.array().dtype())
             : -1;
}

int lockstep_tensors_one(const lockstep_tensors* tensors, size_t index, lockstep_tensors** tensor) {
  return guarded([&]() -> Result<void> {
    if (index >= lockstep_tensors_count(tensors) || tensor == nullptr)
      return bad_input("there is no such tensor, or no place for its handle");
    *tensor = new lockstep_tensors{{tensors->named[index]}};
    return {};
  });
}

void lockstep_tensors_free(lockstep_tensors* tensors) { delete tensors; }

int lockstep_controller_fetch(lockstep_controller* controller, const lockstep_tensors* tensors,
                              int worker, lockstep_fetched** fetched) {
  return guarded([&]() -> Result<void> {
    const auto made = controller_of(controller);
    if (!made) return made.error();
    const auto tensor = first_of(tensors);
    if (!tensor) return tensor.error();
    if (fetched == nullptr) return bad_input("the place for the tensor is NULL");
    auto array = (*made)->fetch(**tensor, worker);
    if (!array) return array.error();
    *fetched = new lockstep_fetched{*std::move(array)};
    return {};
  });
}

int lockstep_controller_sizes(lockstep_controller* controller, const lockstep_tensors* tensors,
                              lockstep_fetched** fetched) {
  return guarded([&]() -> Result<void> {
    const auto made = controller_of(controller);
    if (!made) return made.error();
    const auto tensor = first_of(tensors);
    if (!tensor) return tensor.error();
    if (fetched == nullptr) return bad_input("the place for the sizes is NULL");
    const auto sizes = (*made)->sizes(**tensor);
    if (!sizes) return sizes.error();
    const std::size_t ndim = sizes->empty() ? 0 : sizes->front().size();
    Array out(DType::I64,
              {static_cast<std::int64_t>(sizes->size()), static_cast<std::int64_t>(ndim)});
    for (std::size_t w = 0; w < sizes->size(); ++w)
      if (ndim != 0 && (*sizes)[w].size() == ndim)
        std::memcpy(out.data_as<std::int64_t>() + w * ndim, (*sizes)[w].data(), ndim * 8);
    *fetched = new lockstep_fetched{std::move(out)};
    return {};
  });
}

lockstep_array lockstep_fetched_array(const lockstep_fetched* fetched) {
  if (fetched == nullptr) return {};
  const Array& array = fetched->array;
  return {static_cast<lockstep_dtype>(array.dtype()),
          static_cast<std::uint32_t>(array.sizes().size()), array.sizes().data(), array.data()};
}

void lockstep_fetched_free(lockstep_fetched* fetched) { delete fetched; }

int lockstep_controller_load(lockstep_controller* controller, const char* path,
                             lockstep_program** program) {
  return guarded([&]() -> Result<void> {
    const auto made = controller_of(controller);
    if (!made) return made.error();
    if (path == nullptr || program == nullptr)
      return bad_input("path or the place for the program is NULL");
    auto loaded = (*made)->load(path);
    if (!loaded) return loaded.error();
    std::string text = loaded->text();
    *program = new lockstep_program{controller->shared, *std::move(loaded), std::move(text)};
    return {};
  });
}

const char* lockstep_program_text(const lockstep_program* program) {
  return program == nullptr ? "" : program->text.c_str();
}

void lockstep_program_free(lockstep_program* program) {
  if (program != nullptr && *program->controller != nullptr) {
    const auto turn = (*program->controller)->enter("the end of a program");
    if (!turn) return (void)fail(turn.error());  // not freed: the other call uses it
  }
  delete program;
}

int lockstep_program_call(lockstep_program* program, const lockstep_value* values, size_t count,
                          lockstep_tensors** outputs) {
  return guarded([&]() -> Result<void> {
    if (program == nullptr || (values == nullptr && count > 0) || outputs == nullptr)
      return bad_input("program, values or the place for the outputs is NULL");
    if (*program->controller == nullptr)
      return bad_input("the controller of the program has been freed; load it with another one");
    std::map<std::string, worker::RemoteValue> inputs;
    for (std::size_t i = 0; i < count; ++i) {
      auto value = value_of(values[i]);
      if (!value) return value.error();
      if (values[i].name == nullptr || !inputs.emplace(values[i].name, *std::move(value)).second)
        return bad_input("an input has no name, or the name of another one");
    }
    for (std::size_t i = 0; i < count; ++i)
      if (values[i].kind == LOCKSTEP_TENSOR && values[i].moved != 0)
        values[i].tensor->named.clear();
    auto out = program->program(std::move(inputs));
    if (!out) return out.error();
    *outputs = tensors_of(*std::move(out));
    return {};
  });
}
}
