// Turns values into stored bytes, a seal (seal.h) followed by Cereal's portable binary archive, and
// back. Only .cpp files include this header, because it includes Cereal. The file that stores a
// type defines its `serialize` and its version (CEREAL_CLASS_VERSION). The version is in the seal,
// so bytes of another version are never read.
#pragma once

#include <istream>
#include <optional>
#include <sstream>
#include <streambuf>
#include <type_traits>
#include <utility>

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/common.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <fmt/format.h>

#include <lockstep/coordinator/store/seal.h>
#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::coordinator {

/// A span of bytes as an input stream.
class SpanBuffer : public std::streambuf {
 public:
  explicit SpanBuffer(std::span<const std::byte> bytes) {
    char* begin = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));
    setg(begin, begin, begin + bytes.size());
  }
  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(egptr() - gptr()); }
};

/// Cereal's archive with checked sizes. Cereal allocates a container of the stored size before it
/// reads an element; this archive refuses a size that exceeds the number of bytes left (an element
/// takes at least one).
class BoundedInput : public cereal::InputArchive<BoundedInput, cereal::AllowEmptyClassElision> {
 public:
  /// Number of bits of a stored size. Bytes stored before Cereal was used have sizes of 32 bits,
  /// and are otherwise equal.
  enum class Sizes : std::uint8_t { Of32, Of64 };

  /// Throws cereal::Exception, as every read does.
  BoundedInput(std::span<const std::byte> bytes, Sizes sizes)
      : InputArchive(this), sizes_(sizes), buffer_(bytes), stream_(&buffer_), cereal_(stream_) {}

  [[nodiscard]] std::size_t left() const { return buffer_.left(); }
  template <std::size_t Element>
  void read(void* data, std::size_t bytes) {
    cereal_.loadBinary<Element>(data, static_cast<std::streamsize>(bytes));
  }
  [[nodiscard]] std::uint64_t size() {
    const std::uint64_t size =
        sizes_ == Sizes::Of64 ? number<std::uint64_t>() : number<std::uint32_t>();
    if (size > left()) throw cereal::Exception("a size of more than the bytes that are left");
    return size;
  }

 private:
  template <class T>
  T number() {
    T value{};
    read<sizeof(T)>(&value, sizeof(T));
    return value;
  }

  Sizes sizes_;
  SpanBuffer buffer_;
  std::istream stream_;
  cereal::PortableBinaryInputArchive cereal_;
};

template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
void load(BoundedInput& in, T& value) {
  in.read<sizeof(T)>(&value, sizeof(T));
}
template <class T>
void load(BoundedInput& in, cereal::NameValuePair<T>& pair) {
  in(pair.value);
}
template <class T>
void load(BoundedInput& in, cereal::SizeTag<T>& tag) {
  tag.size = in.size();
}
template <class T>
void load(BoundedInput& in, cereal::BinaryData<T>& data) {
  in.read<sizeof(std::remove_pointer_t<T>)>(data.data, static_cast<std::size_t>(data.size));
}

/// The value; nullopt: the bytes are not exactly those of a T.
template <class T>
std::optional<T> read_archive(std::span<const std::byte> bytes,
                              BoundedInput::Sizes sizes = BoundedInput::Sizes::Of64) {
  try {
    BoundedInput in(bytes, sizes);
    T value;
    in(value);
    if (in.left() == 0) return value;
  } catch (const cereal::Exception&) {
  }
  return std::nullopt;
}

template <class T>
Bytes pack(std::string_view kind, const T& value) {
  std::ostringstream out;
  cereal::PortableBinaryOutputArchive(
      out, cereal::PortableBinaryOutputArchive::Options::LittleEndian())(value);
  const std::string bytes = std::move(out).str();
  return seal({kind, cereal::detail::Version<T>::version}, std::as_bytes(std::span(bytes)));
}

/// The value in sealed bytes. Errors: those of unseal().
template <class T>
Result<T> unpack(std::string_view kind, std::span<const std::byte> bytes) {
  const auto payload = unseal({kind, cereal::detail::Version<T>::version}, bytes);
  if (!payload) return payload.error();
  if (auto value = read_archive<T>(*payload)) return *std::move(value);
  return environment_error(fmt::format("what is in it is no {}", kind));
}

}  // namespace lockstep::coordinator

namespace lockstep::shapes {

template <class Archive>
void serialize(Archive& archive, Fingerprint& fingerprint) {
  archive(fingerprint.high, fingerprint.low);
}

}  // namespace lockstep::shapes

namespace cereal {

template <>
struct traits::detail::get_output_from_input<lockstep::coordinator::BoundedInput> {
  using type = PortableBinaryOutputArchive;
};

// Without these functions Cereal would read and write the bytes one by one.
template <class Archive>
void save(Archive& archive, const lockstep::Bytes& bytes) {
  archive(make_size_tag(static_cast<size_type>(bytes.size())));
  archive(binary_data(bytes.data(), bytes.size()));
}
template <class Archive>
void load(Archive& archive, lockstep::Bytes& bytes) {
  size_type size = 0;
  archive(make_size_tag(size));
  bytes.resize(static_cast<std::size_t>(size));
  archive(binary_data(bytes.data(), bytes.size()));
}

}  // namespace cereal
