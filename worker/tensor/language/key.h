// Keys of random numbers: a program draws numbers by keys (random_ops.h), without hidden state. A
// frame takes a key as an input and draws other numbers for every key, without a compile or a
// guard.
//
//   struct Batch {
//     Tensor x;
//     Key key;
//     template <class V> void fields(V& v) { v("x", x); v("key", key); }
//   };
//   const Key seed(42);
//   step(Batch{x, seed.fold_in(call)});
//
// A Key is the same on all ranks of the frame's group, and is compared like the sizes that a
// collective needs: if ranks have different keys, all get one joint error at that call. A RankKey
// is this rank's own and is not compared. Draw from a key once; split() and fold_in() make more
// keys of it, the same keys within a trace and outside.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::worker {

/// The purpose of the bits, in the second half of the counter. So draws by a key share no bits with
/// the keys made of it.
enum class RandomStream : std::int64_t { Draw = 0, SecondDraw = 1, Split = 2, FoldIn = 3 };

/// 64 bits: a number outside of a trace, a 0-d i64 tensor inside. Immutable value, single-threaded.
class RankKey {
 public:
  RankKey() = default;
  explicit RankKey(std::int64_t seed) : number_(seed) {}
  /// Throws TraceUsageError for anything but a traced 0-d i64 tensor.
  explicit RankKey(Tensor tensor, Line where = Line::current());

  [[nodiscard]] bool traced() const { return tensor_.traced(); }
  /// Throws DataDependentError for a traced key.
  [[nodiscard]] std::int64_t value(Line where = Line::current()) const;
  /// Requires a traced key.
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  /// The number as a 0-d i64 array. Requires a key that is not traced.
  [[nodiscard]] Array array() const;

  /// `n` keys; the first k of them are those of split(k).
  [[nodiscard]] std::vector<RankKey> split(std::int64_t n, Line where = Line::current()) const;
  /// A separate key for each number.
  [[nodiscard]] RankKey fold_in(const IntOperand& n) const;
  /// As above, for a 0-d i64 tensor such as group_rank(). Requires a traced key.
  [[nodiscard]] RankKey fold_in(const Tensor& n, Line where = Line::current()) const;

 private:
  std::int64_t number_ = 0;
  Tensor tensor_;
};

/// A key that is the same on all ranks. Immutable value, single-threaded.
class Key {
 public:
  Key() = default;
  explicit Key(std::int64_t seed) : key_(seed) {}
  /// Requires a tensor that the caller knows to be the same on all ranks, such as the result of a
  /// broadcast or of values that are the same.
  explicit Key(Tensor tensor, Line where = Line::current()) : key_(std::move(tensor), where) {}
  /// A Key can be used wherever a RankKey can.
  operator RankKey() const { return key_; }  // NOLINT: converts on purpose

  [[nodiscard]] bool traced() const { return key_.traced(); }
  [[nodiscard]] std::int64_t value(Line where = Line::current()) const { return key_.value(where); }
  [[nodiscard]] const Tensor& tensor() const { return key_.tensor(); }

  [[nodiscard]] std::vector<Key> split(std::int64_t n, Line where = Line::current()) const;
  /// In a trace the number must be the same on all ranks, as the key is. The vote of every call
  /// compares a size; the comparison of graphs compares a plain number. Where graphs may differ,
  /// both are compared in the run. A number that exists only when the graph runs is refused. If a
  /// number changes with every call, fold it in before the call. Inside the frame it is an argument
  /// of kernels, and work recorded for a device is recorded again for each value.
  [[nodiscard]] Key fold_in(const IntOperand& n) const;
  /// The elements of a tensor may differ between ranks, so the key is this rank's own.
  [[nodiscard]] RankKey fold_in(const Tensor& n, Line where = Line::current()) const {
    return key_.fold_in(n, where);
  }

 private:
  RankKey key_;
};

/// The input Key with this source number. Adds the comparison that it is the same on all ranks.
[[nodiscard]] Key key_input(Trace& trace, std::size_t source);

/// 64 random bits per element of `counter` (i64). Requires a traced key.
[[nodiscard]] Tensor random_bits(const RankKey& key, const Tensor& counter, RandomStream stream,
                                 Line where = Line::current());

}  // namespace lockstep::worker
