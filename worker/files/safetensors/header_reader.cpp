#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/files/safetensors/header_reader.h>

namespace lockstep::worker {
namespace {

/// Where the parser is in the text. There are no other levels, so nesting is bounded.
enum class At : std::uint8_t { Start, Names, Tensor, Shape, Offsets, Metadata, End };
/// The keys of a tensor, as bits.
constexpr unsigned kDtype = 1, kShape = 2, kOffsets = 4;

class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(std::string_view file) : file_(file) {}

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a bool"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return refuse("a number that is not whole, or too large");
  }
  bool binary(binary_t&) override { return refuse("a binary value"); }
  bool number_unsigned(number_unsigned_t number) override;
  bool string(string_t& text) override;
  bool start_object(std::size_t) override;
  bool start_array(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    return fail(fmt::format("its header is not JSON at byte {}", position));
  }

  [[nodiscard]] Result<SafetensorsHeader> take() && {
    if (error_) return *std::move(error_);
    return std::move(header_);
  }

 private:
  bool fail(const std::string& what) {
    error_ = bad_input(fmt::format("{}: {}.", file_, what));
    return false;
  }
  bool refuse(std::string_view found) {
    switch (at_) {
      case At::Start:
      case At::Names:
        return fail(fmt::format("its header holds {} in place of a tensor", found));
      case At::Metadata:
        return fail(
            fmt::format("its metadata {} is {} in place of a string", quoted_name(key_), found));
      default:
        return fail(
            fmt::format("{} of tensor {} holds {}", key_, quoted_name(tensor_.name), found));
    }
  }
  [[nodiscard]] bool tensor_done();

  std::string_view file_;
  At at_ = At::Start;
  unsigned seen_ = 0;  // keys of the tensor so far
  std::string key_;
  StoredTensor tensor_;
  std::vector<std::uint64_t> offsets_;
  SafetensorsHeader header_;
  std::set<std::string, std::less<>> names_;
  bool metadata_seen_ = false;
  std::optional<Status> error_;
};

bool HeaderEvents::number_unsigned(number_unsigned_t number) {
  if (at_ == At::Shape) {
    if (number > static_cast<std::uint64_t>(INT64_MAX)) return refuse("a size that is too large");
    if (tensor_.sizes.size() == kMostStoredDims)
      return fail(fmt::format("tensor {} has more than {} dims", quoted_name(tensor_.name),
                              kMostStoredDims));
    tensor_.sizes.push_back(static_cast<std::int64_t>(number));
    return true;
  }
  if (at_ != At::Offsets) return refuse("a number");
  if (offsets_.size() == 2) return refuse("more than two numbers");
  offsets_.push_back(number);
  return true;
}

bool HeaderEvents::string(string_t& text) {
  if (at_ == At::Metadata) {
    header_.metadata.emplace(key_, std::move(text));
    return true;
  }
  if (at_ != At::Tensor || key_ != "dtype") return refuse("a string");
  const auto dtype = stored_dtype(text);
  if (!dtype)
    return fail(
        fmt::format("tensor {} has the dtype {}, which is not known here; there are BOOL, "
                    "U8, I8, I16, I32, I64, F16, BF16, F32 and F64",
                    quoted_name(tensor_.name), quoted_name(text)));
  tensor_.dtype = *dtype;
  return true;
}

bool HeaderEvents::start_object(std::size_t) {
  if (at_ == At::Start) {
    at_ = At::Names;
    return true;
  }
  if (at_ != At::Names) return refuse("an object");
  if (key_ == "__metadata__") {
    at_ = At::Metadata;
    return true;
  }
  tensor_ = {}, tensor_.name = key_;
  offsets_.clear();
  seen_ = 0, at_ = At::Tensor;
  return true;
}

bool HeaderEvents::start_array(std::size_t) {
  if (at_ != At::Tensor || key_ == "dtype") return refuse("a list");
  at_ = key_ == "shape" ? At::Shape : At::Offsets;
  return true;
}

bool HeaderEvents::key(string_t& name) {
  key_ = std::move(name);
  if (at_ == At::Metadata) {
    if (header_.metadata.contains(key_))
      return fail(fmt::format("its metadata {} is there twice", quoted_name(key_)));
    return true;
  }
  if (at_ == At::Names) {
    if (key_ != "__metadata__" ? !names_.insert(key_).second : metadata_seen_)
      return fail(fmt::format("there are two tensors with the name {}", quoted_name(key_)));
    if (key_.empty()) return fail("a tensor has an empty name");
    metadata_seen_ = metadata_seen_ || key_ == "__metadata__";
    return true;
  }
  const unsigned bit = key_ == "dtype"          ? kDtype
                       : key_ == "shape"        ? kShape
                       : key_ == "data_offsets" ? kOffsets
                                                : 0;
  if (bit == 0)
    return fail(fmt::format("tensor {} has {}, which is not known here", quoted_name(tensor_.name),
                            quoted_name(key_)));
  if ((seen_ & bit) != 0)
    return fail(fmt::format("tensor {} has {} twice", quoted_name(tensor_.name), key_));
  seen_ |= bit;
  return true;
}

bool HeaderEvents::end_array() {
  at_ = At::Tensor;
  return true;
}

bool HeaderEvents::end_object() {
  if (at_ == At::Tensor) return tensor_done();
  at_ = at_ == At::Metadata ? At::Names : At::End;
  return true;
}

bool HeaderEvents::tensor_done() {
  at_ = At::Names;
  const std::string shown = quoted_name(tensor_.name);
  if (seen_ != (kDtype | kShape | kOffsets))
    return fail(fmt::format("tensor {} lacks its {}", shown,
                            (seen_ & kDtype) == 0   ? "dtype"
                            : (seen_ & kShape) == 0 ? "shape"
                                                    : "data_offsets"));
  if (offsets_.size() != 2 || offsets_[0] > offsets_[1])
    return fail(fmt::format("data_offsets of tensor {} are not a begin and an end", shown));
  const auto bytes = stored_bytes(tensor_.dtype, tensor_.sizes);
  if (!bytes) return fail(fmt::format("the sizes of tensor {} are out of range", shown));
  if (offsets_[1] - offsets_[0] != *bytes)
    return fail(fmt::format("tensor {} takes {} bytes by its shape and {} by its data_offsets",
                            shown, *bytes, offsets_[1] - offsets_[0]));
  tensor_.begin = offsets_[0], tensor_.bytes = *bytes;
  header_.tensors.push_back(std::move(tensor_));
  return true;
}

}  // namespace

Result<SafetensorsHeader> read_header_text(std::string_view text, std::string_view file) {
  HeaderEvents events(file);
  (void)nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  return std::move(events).take();
}

}  // namespace lockstep::worker
