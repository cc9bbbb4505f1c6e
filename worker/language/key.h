// Keys of random numbers: what a program draws by (random_ops.h), without a hidden state. A frame
// takes a key as an input and gets other numbers with every key; no compile, no guard.
//
//   struct Batch {
//     Tensor x;
//     Key key;
//     template <class V> void fields(V& v) { v("x", x); v("key", key); }
//   };
//   const Key seed(42);
//   step(Batch{x, seed.fold_in(call)});
//
// A Key is the same on all ranks of the frame's group, and compared as sizes that a collective
// needs are: ranks with different ones get one joint error at that call. A RankKey is this rank's
// own, and compared with no other. A key is drawn from once; split() and fold_in() make more keys
// of it, the same ones within a trace and outside of it.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/worker/trace/tensor.h>

namespace lockstep::worker {

/// The second half of the counter says what bits are for, so that what is drawn by a key and the
/// keys that are made of it have nothing in common.
enum class RandomStream : std::int64_t { Draw = 0, SecondDraw = 1, Split = 2, FoldIn = 3 };

/// 64 bits: a number outside of a trace, a 0-d i64 tensor inside. Immutable value, one thread.
class RankKey {
 public:
  RankKey() = default;
  explicit RankKey(std::int64_t seed) : number_(seed) {}
  /// Throws TraceUsageError for anything but a traced 0-d i64 tensor.
  explicit RankKey(Tensor tensor, Line where = Line::current());

  [[nodiscard]] bool traced() const { return tensor_.traced(); }
  /// Throws DataDependentError for a traced one.
  [[nodiscard]] std::int64_t value(Line where = Line::current()) const;
  /// Requires a traced one.
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  /// The number as a 0-d i64 array. Requires one that is not traced.
  [[nodiscard]] Array array() const;

  /// `n` keys, of which the first k are those that split(k) gives.
  [[nodiscard]] std::vector<RankKey> split(std::int64_t n, Line where = Line::current()) const;
  /// A key of its own for each number.
  [[nodiscard]] RankKey fold_in(const IntOperand& n) const;
  /// Of a 0-d i64 tensor, such as group_rank(). Requires a traced key.
  [[nodiscard]] RankKey fold_in(const Tensor& n, Line where = Line::current()) const;

 private:
  std::int64_t number_ = 0;
  Tensor tensor_;
};

/// A key that is the same on all ranks. Immutable value, one thread.
class Key {
 public:
  Key() = default;
  explicit Key(std::int64_t seed) : key_(seed) {}
  /// Of a tensor that the caller knows to be the same on all ranks, because it comes from a
  /// broadcast, or is made of what is.
  explicit Key(Tensor tensor, Line where = Line::current()) : key_(std::move(tensor), where) {}
  /// It goes wherever a rank's own key does.
  operator RankKey() const { return key_; }  // NOLINT: converts on purpose

  [[nodiscard]] bool traced() const { return key_.traced(); }
  [[nodiscard]] std::int64_t value(Line where = Line::current()) const { return key_.value(where); }
  [[nodiscard]] const Tensor& tensor() const { return key_.tensor(); }

  [[nodiscard]] std::vector<Key> split(std::int64_t n, Line where = Line::current()) const;
  /// In a trace the number must be the same on all ranks, as the key is; the vote of every call
  /// compares it, of a plain number the comparison of graphs, and where graphs may differ the run.
  /// One that exists only when the graph runs is refused. A number that changes with
  /// every call is better folded in before the call: in the frame it is an argument of kernels, and
  /// work that is recorded for a device is recorded for each.
  [[nodiscard]] Key fold_in(const IntOperand& n) const;
  /// What a tensor holds may differ between ranks, so the key is this rank's own.
  [[nodiscard]] RankKey fold_in(const Tensor& n, Line where = Line::current()) const {
    return key_.fold_in(n, where);
  }

 private:
  RankKey key_;
};

/// The Key that is an input, by number of its source; that it is the same on all ranks is compared
/// from here on.
[[nodiscard]] Key key_input(Trace& trace, std::size_t source);

/// 64 random bits per element of `counter` (i64). Requires a traced key.
[[nodiscard]] Tensor random_bits(const RankKey& key, const Tensor& counter, RandomStream stream,
                                 Line where = Line::current());

}  // namespace lockstep::worker
