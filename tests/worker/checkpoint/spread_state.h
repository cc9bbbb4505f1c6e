// States of random tensors that are spread over ranks in random ways, with every element's value
// known: its number in the global tensor.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <lockstep/worker/files/checkpoint/state.h>

namespace lockstep::worker {

/// A global tensor whose element i has the bytes of a hash of (name, i): what a naive gather or
/// scatter is made of.
struct GlobalTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> sizes;
  /// Cuts along each dim: ranks as a grid, each with the part between two cuts.
  std::vector<std::vector<std::int64_t>> cuts;
  int only_rank = -1;  // held by one rank; -1: all

  [[nodiscard]] std::uint64_t element(std::uint64_t i, std::uint64_t version) const {
    std::uint64_t h = i * 0x9E3779B97F4A7C15ull + std::hash<std::string>()(name) + version * 77;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9ull;
    h ^= h >> 32;
    return dtype == DType::Bool ? h & 1 : h;
  }
  /// Element by element.
  [[nodiscard]] Array part(const Box& box, std::uint64_t version) const {
    Array out(dtype, box.sizes);
    const std::size_t size = dtype_size(dtype);
    auto* at = static_cast<std::byte*>(out.data());
    std::vector<std::int64_t> index(box.sizes.size(), 0);
    for (std::int64_t i = 0; i < out.elements(); ++i) {
      std::int64_t place = 0, rest = i;
      for (std::size_t d = box.sizes.size(); d-- > 0;)
        index[d] = rest % box.sizes[d], rest /= box.sizes[d];
      for (std::size_t d = 0; d < index.size(); ++d)
        place = place * sizes[d] + box.start[d] + index[d];
      const std::uint64_t bits = element(static_cast<std::uint64_t>(place), version);
      std::memcpy(at + static_cast<std::size_t>(i) * size, &bits, size);
    }
    return out;
  }
  /// Rank r's part of a grid; the whole where there are no cuts.
  [[nodiscard]] Box box(int rank) const {
    Box out = Box::whole(sizes);
    for (std::size_t d = 0; d < cuts.size(); ++d) {
      const auto parts = static_cast<int>(cuts[d].size()) - 1;
      const auto mine = static_cast<std::size_t>(rank % parts);
      rank /= parts;
      out.start[d] = cuts[d][mine], out.sizes[d] = cuts[d][mine + 1] - cuts[d][mine];
    }
    return out;
  }
};

inline std::vector<std::int64_t> random_cuts(std::int64_t size, int parts,
                                             std::mt19937_64& engine) {
  std::vector<std::int64_t> out = {0, size};
  for (int i = 1; i < parts; ++i)
    out.push_back(static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(size + 1)));
  std::sort(out.begin(), out.end());
  return out;
}

/// Spreads the tensor over `ranks` anew: not at all, along one dim, or along two.
inline void spread(GlobalTensor& tensor, int ranks, std::mt19937_64& engine) {
  tensor.cuts.clear();
  tensor.only_rank = -1;
  const std::uint64_t way = engine() % 5;
  if (way == 0 || tensor.sizes.empty()) return;
  if (way == 1) {
    tensor.only_rank = static_cast<int>(engine() % static_cast<std::uint64_t>(ranks));
    return;
  }
  int left = ranks;
  for (const std::int64_t size : tensor.sizes) {
    int parts = 1;
    if (way != 2 || &size == &tensor.sizes.back())  // 2: columns alone
      for (int p = left; p > 1; --p)
        if (left % p == 0 && (engine() % 2 == 0 || &size == &tensor.sizes.back())) {
          parts = p;
          break;
        }
    left /= parts;
    tensor.cuts.push_back(random_cuts(size, parts, engine));
  }
}

/// One rank's view.
struct SpreadState {
  struct Held {
    GlobalTensor global;
    Box box;
    Tensor tensor;
  };
  std::vector<Held> held;
  std::int64_t position = 0;
  Key key;

  /// `filled`: with the values of that version; else zeros.
  static SpreadState of(const std::vector<GlobalTensor>& tensors, int rank, std::uint64_t version,
                        bool filled) {
    SpreadState out;
    for (const GlobalTensor& tensor : tensors) {
      if (tensor.only_rank >= 0 && tensor.only_rank != rank) continue;
      const Box box = tensor.box(rank);
      out.held.push_back(
          {tensor, box,
           filled ? tensor.part(box, version) : Array::zeros(tensor.dtype, box.sizes)});
    }
    if (filled) out.position = static_cast<std::int64_t>(version), out.key = Key(-5);
    return out;
  }
  template <class V>
  void fields(V& v) {
    for (Held& one : held) v(one.global.name, Sharded{one.tensor, one.box.start, one.global.sizes});
    v("position", position), v("key", key);
  }
  /// "": every element is that of `version`.
  [[nodiscard]] std::string fault(std::uint64_t version) const {
    for (const Held& one : held) {
      const Array expected = one.global.part(one.box, version);
      if (std::memcmp(expected.data(), one.tensor.array().data(), expected.bytes()) != 0)
        return one.global.name + " " + box_text(one.box);
    }
    if (position != static_cast<std::int64_t>(version)) return "position";
    return key.value() == -5 ? "" : "key";
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t out = 0;
    for (const Held& one : held) out += one.tensor.array().bytes();
    return out;
  }
};

inline std::vector<GlobalTensor> random_tensors(std::mt19937_64& engine) {
  std::vector<GlobalTensor> out(1 + engine() % 5);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].name = "t" + std::to_string(i);
    out[i].dtype = static_cast<DType>(engine() % 10);
    out[i].sizes.resize(engine() % 4);
    for (auto& size : out[i].sizes) size = static_cast<std::int64_t>(engine() % 8);
  }
  return out;
}

}  // namespace lockstep::worker
