// Programs on a device, emulated on this processor: what they do with memory, with what the host
// has to know, and with everything that can fail. That every op is right is seen in
// cuda_text_test.cpp.
#include <algorithm>
#include <cstring>

#include "compiled_graph.h"
#include "emulated_device.h"
#include "graph_builder.h"
#include "ops/op_graphs.h"
#include "thread_group.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/device/cuda_device.h>
#include <lockstep/worker/compile/device/device_pool.h>

namespace lockstep::worker::device_backend_test {
namespace {

using shapes::Expr;

struct Loaded {
  std::shared_ptr<EmulatedDevice> device = std::make_shared<EmulatedDevice>();
  SystemClock clock;
  std::unique_ptr<Executable> program;
  std::size_t loaded_bytes = 0;  // that the program has besides the values of runs

  explicit Loaded(Graph graph) {
    auto built = build_emulated(generate(std::move(graph), Target::Cuda).value());
    EXPECT_TRUE(built.has_value()) << built.error().text();
    program = Executable::load(std::move(built->program), built->units, clock, device).value();
    loaded_bytes = device->live_bytes();
  }
  /// Outputs stay on the device.
  Result<std::vector<Array>> run(const Inputs& inputs) { return run_compiled(*program, inputs); }
  /// As the interpreter: outputs, or the same error.
  void expect_agreement(const Inputs& inputs) {
    const auto expected = run_interpreted(program->program().graph, inputs);
    {
      const auto got = run(inputs);
      ASSERT_EQ(got.has_value(), expected.has_value()) << (got ? expected : got).error().text();
      if (got)
        EXPECT_TRUE(same(*got, *expected, 1e-9));
      else
        EXPECT_EQ(got.error(), expected.error());
    }
    EXPECT_EQ(device->live_bytes(), loaded_bytes);
  }
};

/// Sums of sums: every value is stored, and read by the next one only.
Graph chain_graph(int length) {
  GraphBuilder g("chain");
  NodeId x = g.input("x", DType::F64, {g.symbol("x.size(0)")});
  for (int k = 0; k < length; ++k) {
    g.line(10 + static_cast<std::uint32_t>(k));
    x = g.op(Op::Cumsum, {x});
  }
  g.output(x);
  return g.take();
}

/// Sizes that the data give, an assert over them, and a gather that they allow.
Graph read_graph() {
  GraphBuilder g("read");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F64, {n}), counts = g.input("counts", DType::I64, {Expr(2)});
  const NodeId rows = g.input("rows", DType::I64, {g.symbol("rows.size(0)")});
  const auto read = g.read(Op::ToList, g.op(Op::Add, {counts, counts}));
  g.line(41);
  for (const Expr& size : read) g.check(shapes::greater_equal(size, 0));
  g.check(shapes::less_equal(read[0] + read[1], n), "there are so many rows");
  const NodeId last = g.slice(x, 0, read[0], read[1]);
  g.output(g.op(Op::Cumsum, {last}));
  g.output(g.op(Op::IndexSelect, {last, rows}));
  const auto total = g.read(Op::Item, g.reduce(Op::Sum, rows, {0}));
  g.check(shapes::greater_equal(total[0], 0));
  g.output(g.full(DType::F64, {total[0]}, 2.5));
  g.output(x);
  g.output(rows);
  return g.take();
}

Inputs read_inputs(std::int64_t n, std::vector<std::int64_t> counts,
                   std::vector<std::int64_t> rows) {
  std::mt19937_64 random(3);
  Inputs inputs;
  inputs["x"] = random_array(random, DType::F64, {n});
  inputs["counts"] = integers({2}, std::move(counts));
  const auto length = static_cast<std::int64_t>(rows.size());
  inputs["rows"] = integers({length}, std::move(rows));
  return inputs;
}

/// Bytes as they are in every input.
std::vector<std::vector<std::byte>> bytes_of(const Inputs& inputs) {
  std::vector<std::vector<std::byte>> out;
  for (const auto& [name, array] : inputs) {
    const auto* data = static_cast<const std::byte*>(array.data());
    out.emplace_back(data, data + array.bytes());
  }
  return out;
}

/// One sentence, or several clauses, without an end of its own.
bool is_one_sentence(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos && text.back() != '.' &&
         text.find(". ") == std::string::npos;
}

TEST(DeviceBackend, WhatTheHostReads_ComesInItsPlace) {
  Loaded loaded(read_graph());
  loaded.expect_agreement(read_inputs(9, {1, 2}, {3, 0, 1}));
  loaded.expect_agreement(read_inputs(0, {0, 0}, {}));
  loaded.expect_agreement(read_inputs(1001, {100, 400}, {799, 0}));
}

TEST(DeviceBackend, WrongValues_AreTheInterpretersErrors) {
  Loaded loaded(read_graph());
  loaded.expect_agreement(read_inputs(9, {1, 2}, {3, 4, 1}));   // index outside
  loaded.expect_agreement(read_inputs(9, {1, 2}, {3, -1, 1}));  // negative index
  loaded.expect_agreement(read_inputs(9, {3, 2}, {0}));         // fails the assert
  loaded.expect_agreement(read_inputs(9, {-1, 2}, {0}));
  Inputs inputs = read_inputs(9, {1, 2}, {0});
  inputs["counts"] = integers({3}, {1, 2, 3});  // not this entry's sizes
  loaded.expect_agreement(inputs);
  inputs.erase("x");
  loaded.expect_agreement(inputs);
}

TEST(DeviceBackend, MemoryOfAValue_ServesTheNext) {
  Loaded loaded(chain_graph(12));
  Inputs inputs;
  inputs["x"] = Array::zeros(DType::F64, {256});  // 2048 bytes
  loaded.expect_agreement(inputs);
  EXPECT_EQ(loaded.program->bytes(), 2 * 2048U);
}

TEST(DeviceBackend, Outputs_BelongToTheCaller) {
  Loaded loaded(read_graph());
  const Inputs inputs = read_inputs(100, {10, 20}, {3, 0, 1});
  const auto before = bytes_of(inputs);
  auto first = loaded.run(inputs);
  ASSERT_TRUE(first.has_value()) << first.error().text();
  // 40 sums, 3 picked, 4 numbers, in blocks of 512; x and rows are the caller's own.
  const std::size_t outputs = loaded.loaded_bytes + 512 + 512 + 512;
  EXPECT_EQ(loaded.device->live_bytes(), outputs);
  EXPECT_EQ((*first)[3].data(), inputs.at("x").data());
  const auto second = loaded.run(inputs);
  ASSERT_TRUE(second.has_value());
  for (std::size_t k = 0; k < first->size(); ++k)
    EXPECT_EQ(
        std::memcmp(std::as_const((*first)[k]).data(), (*second)[k].data(), (*second)[k].bytes()),
        0)
        << k;
  EXPECT_EQ(bytes_of(inputs), before);
  first->clear();
  EXPECT_EQ(loaded.device->live_bytes(), outputs);
}

TEST(DeviceBackend, CountsThatTheHostHasExchanged_AreNotReadBack) {
  const auto downloads = [](bool looked_at) {
    GraphBuilder g("counts");
    const NodeId x = g.input("x", DType::F64, {g.symbol("x.size(0)")}),
                 at = g.input("at", DType::I64, {Expr(2)}),
                 counts = g.input("counts", DType::I64, {Expr(1)});
    g.output(g.op(Op::IndexSelect, {x, at}));  // may fail on one rank alone, which the counts tell
    const NodeId received = g.all_to_all(counts, {Expr(1)}, {Expr(1)});
    if (looked_at) g.output(g.full(DType::F64, {g.read(Op::ToList, received)[0]}, 1));
    g.output(received);
    Loaded loaded(g.take());
    EXPECT_TRUE(std::ranges::any_of(loaded.program->program().steps, &Step::carries_status));
    const Inputs inputs = {{"x", Array::zeros(DType::F64, {3})},
                           {"at", Array::of(DType::I64, {2}, std::vector<double>{2, 0})},
                           {"counts", Array::of(DType::I64, {1}, std::vector<double>{5})}};
    const auto out = loaded.run(inputs);
    EXPECT_TRUE(out.has_value());
    const int asked = loaded.device->downloads();
    if (looked_at && out) {
      EXPECT_EQ((*out)[1].sizes(), std::vector<std::int64_t>{5});
    }
    return asked;
  };
  EXPECT_EQ(downloads(true), downloads(false));
}

TEST(DeviceBackend, OutputsOfOneRun_AreReadWhereTheyAreByTheNext) {
  Loaded loaded(chain_graph(2));
  Inputs inputs;
  inputs["x"] = Array::of(DType::F64, {3}, std::vector<double>{1, 2, 3});
  for (int k = 0; k < 3; ++k) {
    auto out = loaded.run(inputs);
    ASSERT_TRUE(out.has_value());
    inputs["x"] = (*out)[0];
  }
  EXPECT_EQ(loaded.device->uploads(), 1);
  EXPECT_EQ(loaded.device->downloads(), 0);
  EXPECT_EQ(loaded.device->live_bytes(), 512U);
  Array last = inputs["x"];
  EXPECT_EQ(std::as_const(last).at(2), 36);  // six sums of sums of 1, 2, 3
  EXPECT_EQ(std::as_const(last).at(1), 8);
  EXPECT_EQ(loaded.device->downloads(), 1);
  EXPECT_EQ(loaded.device->live_bytes(), 512U);
  // Once it may have been written to, the host's values are the ones.
  last.set(0, 100);
  EXPECT_EQ(loaded.device->live_bytes(), 0U);
  const auto out = loaded.run(inputs);
  EXPECT_EQ((*out)[0].at(0), 100);
  EXPECT_EQ(loaded.device->uploads(), 2);
}

TEST(DeviceBackend, MemoryThatTheDeviceDoesNotGiveBack_IsAnExceptionThatSaysSo) {
  Loaded loaded(chain_graph(1));
  const auto out = loaded.run({{"x", Array::zeros(DType::F64, {4})}});
  loaded.device->fail_call(0);
  try {
    (void)(*out)[0].at(0);
    ADD_FAILURE() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "download failed on rank 1's emulated device: as it was told to");
  }
}

TEST(DeviceBackend, AnyCallThatFails_FailsTheRunAndFreesAll) {
  Loaded loaded(read_graph());
  const Inputs inputs = read_inputs(100, {10, 20}, {3, 0, 1});
  const auto before = bytes_of(inputs);
  const int start = loaded.device->calls();
  ASSERT_TRUE(loaded.run(inputs).has_value());
  const int calls = loaded.device->calls() - start;
  ASSERT_GT(calls, 10);
  for (int n = 0; n < calls; ++n) {
    loaded.device->fail_call(n);
    const auto got = loaded.run(inputs);
    ASSERT_TRUE(got.has_error()) << n;
    EXPECT_EQ(got.error().code, Code::Environment);
    EXPECT_TRUE(
        got.error().message.ends_with(" failed on rank 1's emulated device: as it was told to"))
        << got.error().message;
    EXPECT_TRUE(is_one_sentence(got.error().message));
    EXPECT_EQ(loaded.device->live_bytes(), loaded.loaded_bytes) << n;
  }
  EXPECT_EQ(bytes_of(inputs), before);
  loaded.expect_agreement(inputs);
}

TEST(DeviceBackend, LittleMemory_IsEnoughOrAnExplainedError) {
  Loaded loaded(chain_graph(5));
  Inputs inputs;
  inputs["x"] = Array::zeros(DType::F64, {256});
  for (std::size_t capacity = 0; capacity < 4096; capacity += 512) {
    loaded.device->set_capacity(capacity);
    const auto got = loaded.run(inputs);
    ASSERT_TRUE(got.has_error()) << capacity;
    EXPECT_EQ(got.error().code, Code::Environment);
    EXPECT_TRUE(is_one_sentence(got.error().message));
    EXPECT_EQ(got.error().message,
              std::string("rank 1's emulated device has no memory for the 2048 bytes of ") +
                  (capacity < 2048 ? "input at model.cpp:1" : "cumsum at model.cpp:10") +
                  " in a run of frame chain, which uses " + (capacity < 2048 ? "0" : "2048") +
                  " bytes there and has given back those it kept; use smaller batches");
    EXPECT_EQ(loaded.device->live_bytes(), 0U);
  }
  loaded.device->set_capacity(4096);
  loaded.expect_agreement(inputs);
}

TEST(DeviceBackend, Products_AsInterpreted) {
  for (const DType dtype : {DType::F64, DType::F32}) {
    const Graph graph = product_graph(dtype, std::nullopt);
    Loaded loaded(graph);
    std::mt19937_64 random(7);
    for (const auto& [a, b] : {std::pair{0, 0}, {0, 5}, {5, 0}, {1, 1}, {2, 5}, {37, 11}}) {
      const Inputs inputs = inputs_for(random, dtype, a, b, false);
      const auto expected = run_interpreted(graph, inputs);
      const auto got = loaded.run(inputs);
      ASSERT_TRUE(got.has_value() && expected.has_value());
      EXPECT_TRUE(same(*got, *expected, dtype == DType::F32 ? 1e-4 : 1e-9)) << a << ", " << b;
    }
  }
}

TEST(DeviceBackend, LoadThatFails_UnloadsWhatItHas) {
  const auto built = build_emulated(generate(read_graph(), Target::Cuda).value()).value();
  const auto device = std::make_shared<EmulatedDevice>();
  const SystemClock clock;
  for (int n = 0; n < 2 + static_cast<int>(built.program.kernels.size()); ++n) {
    device->fail_call(n);
    EXPECT_TRUE(Executable::load(built.program, built.units, clock, device).has_error());
    EXPECT_EQ(device->modules(), 0U);
  }
  device->set_capacity(15);
  const auto loaded = Executable::load(built.program, built.units, clock, device);
  ASSERT_TRUE(loaded.has_error());
  EXPECT_EQ(loaded.error().message,
            "rank 1's emulated device has no memory for 16 bytes that frame read needs besides its "
            "values");
  EXPECT_EQ(device->modules(), 0U);
}

TEST(CudaDevice, NoSuchDevice_SaysWhatIsMissing) {
  const auto opened = open_cuda_device({.ordinal = 99, .rank = Rank{3}});
  ASSERT_TRUE(opened.has_error());
  EXPECT_EQ(opened.error().code, Code::Environment);
  EXPECT_TRUE(is_one_sentence(opened.error().message));
  for (const char* part : {"rank 3", "CUDA device 99"})
    EXPECT_NE(opened.error().message.find(part), std::string::npos) << opened.error().message;
}

}  // namespace
}  // namespace lockstep::worker::device_backend_test
