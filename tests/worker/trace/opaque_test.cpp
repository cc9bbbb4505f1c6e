// Objects as inputs: what they are known by, and what is left of one that is gone.
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/language/inputs.h>
#include <lockstep/worker/tensor/language/operators.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::opaque_test {
namespace {

struct Vocabulary {
  std::string name;
  int size = 0;
};
struct SameVocabulary {
  static std::uint64_t hash(const Vocabulary& v) { return static_cast<std::uint64_t>(v.size); }
  static bool equal(const Vocabulary& a, const Vocabulary& b) {
    return a.name == b.name && a.size == b.size;
  }
  static std::string text(const Vocabulary& v) { return v.name; }
};
using ByIdentity = Opaque<Vocabulary>;
using ByValue = Opaque<Vocabulary, SameVocabulary>;

std::shared_ptr<Vocabulary> vocabulary(std::string name, int size) {
  return std::make_shared<Vocabulary>(Vocabulary{std::move(name), size});
}
std::string key(ObjectTable& table, const OpaqueInput& input) {
  const Field field = table.field("v", input);
  EXPECT_EQ(field.spec, (FieldSpec{"v", FieldType::Object, FieldJoin::Equal}));
  return field.value.bytes;
}

TEST(Opaque, WithoutAnEquality_AnObjectIsItself_NumberedByItsFirstUse) {
  ObjectTable table;
  const auto a = vocabulary("a", 3), like_a = vocabulary("a", 3);
  EXPECT_EQ(key(table, ByIdentity(a)), "object 1");
  EXPECT_EQ(key(table, ByIdentity(like_a)), "object 2");
  EXPECT_EQ(key(table, ByIdentity(a)), "object 1");
  EXPECT_EQ(ByIdentity(a)->name, "a");
  EXPECT_EQ((*ByIdentity(a)).size, 3);
}

TEST(Opaque, TheFirstMemberOfAnObject_IsNotTheObject) {
  struct Outer {
    Vocabulary inner;
  };
  ObjectTable table;
  const auto outer = std::make_shared<Outer>();
  const std::shared_ptr<Vocabulary> inner(outer, &outer->inner);
  EXPECT_EQ(key(table, Opaque<Outer>(outer)), "object 1");
  EXPECT_EQ(key(table, ByIdentity(inner)), "object 2") << "of the same owner, at the same address";
}

TEST(Opaque, AnObjectAtTheAddressOfOneThatIsGone_IsAnother) {
  ObjectTable table;
  auto first = std::shared_ptr<Vocabulary>(new Vocabulary{"a", 3});
  const void* const address = first.get();
  EXPECT_EQ(key(table, ByIdentity(first)), "object 1");
  first.reset();
  bool met = false;
  std::vector<std::shared_ptr<Vocabulary>> kept;
  for (int i = 0; i < 1000 && !met; ++i) {
    kept.push_back(std::shared_ptr<Vocabulary>(new Vocabulary{"a", 3}));
    met = kept.back().get() == address;
  }
  if (!met) GTEST_SKIP() << "the allocator did not give the address again";
  EXPECT_EQ(key(table, ByIdentity(kept.back())), "object 2");
}

TEST(Opaque, ATable_KeepsNoObject_AndForgetsThoseThatAreGone) {
  ObjectTable table;
  std::weak_ptr<Vocabulary> watched;
  for (int i = 0; i < 100; ++i) {
    const auto object = vocabulary("a", i);
    watched = object;
    EXPECT_EQ(key(table, ByIdentity(object)), "object " + std::to_string(i + 1));
  }
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(table.size(), 1U) << "the last one; the others were erased as it came";
}

TEST(Opaque, DeclaredEquality_TellsObjectsByHashAndThenByEqual) {
  ObjectTable table;
  const auto a = vocabulary("a", 3), like_a = vocabulary("a", 3), b = vocabulary("b", 3);
  const std::string hash = ", hash 0000000000000003";
  EXPECT_EQ(key(table, ByValue(a)), "a" + hash);
  EXPECT_EQ(key(table, ByValue(like_a)), "a" + hash);
  EXPECT_EQ(key(table, ByValue(b)), "b" + hash + ", number 2") << "same hash, not equal";
  EXPECT_EQ(key(table, ByValue(vocabulary("b", 4))), "b, hash 0000000000000004");
  EXPECT_EQ(key(table, ByValue(a)), "a" + hash);
}

TEST(Opaque, MadeAnewForEveryCall_WithADeclaredEquality_ItStaysTheSame) {
  ObjectTable table;
  for (int call = 0; call < 5; ++call)
    EXPECT_EQ(key(table, ByValue(vocabulary("a", 3))), "a, hash 0000000000000003");
  EXPECT_EQ(table.size(), 1U);
}

struct Input {
  Tensor x;
  ByIdentity words;
  std::vector<std::pair<std::string, Tensor>> params;
  template <class V>
  void fields(V& v) {
    v("x", x), v("words", words), v("params", params);
  }
};

Tensor tensor() { return Array::zeros(DType::F32, {4}); }

TEST(Opaque, AsAnInput_ItIsAField_AndTheObjectItselfInTheTrace) {
  Input in{tensor(), vocabulary("a", 7), {{"w", tensor()}, {"b", tensor()}}};
  InputTree tree;
  Observation seen;
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(flatten(in, tree, seen).has_value());
    ASSERT_EQ(seen.list->sources().size(), 3U);
    EXPECT_EQ(seen.list->sources()[0].name, "params[\"b\"]") << "by name, whatever the order";
    ASSERT_EQ(seen.fields.size(), 2U);
    EXPECT_EQ(seen.fields[0].spec.name, "params.keys()");
    EXPECT_EQ(seen.fields[0].value.bytes, "w, b");
    EXPECT_EQ(seen.fields[1].spec.name, "words");
    EXPECT_EQ(seen.fields[1].value.bytes, "object 1");
  }
  Decision decision;
  for (const SourceSpec& spec : seen.list->sources())
    decision.sources.push_back({spec, {{.value = 4}}});
  const auto trace = Trace::start({.frame = "f", .decision = decision});
  const Input traced = traced_like(in, tree, *trace);
  EXPECT_EQ(traced.words->size, 7);
  EXPECT_EQ(traced.params[0].first, "w");
  EXPECT_TRUE(traced.params[0].second.traced());
}

TEST(Opaque, ObjectsStayKnown_WhereInputsChangeTheirStructure) {
  const auto a = vocabulary("a", 1), b = vocabulary("b", 2);
  Input in{tensor(), a, {}};
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(in, tree, seen).has_value());
  in.words = b, in.params.emplace_back("w", tensor());
  ASSERT_TRUE(flatten(in, tree, seen).has_value());
  EXPECT_EQ(seen.fields[1].value.bytes, "object 2");
  in.words = a, in.params.clear();
  ASSERT_TRUE(flatten(in, tree, seen).has_value());
  EXPECT_EQ(seen.fields[1].value.bytes, "object 1");
}

TEST(Opaque, WithoutAnObject_IsRefusedByName) {
  Input in{tensor(), {}, {}};
  InputTree tree;
  Observation seen;
  const auto read = flatten(in, tree, seen);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Code::BadInput);
  EXPECT_EQ(read.error().message, "words has no object; give it one");
}

TEST(Opaque, KeyOrder_NamesAFewKeys_AndFingerprintsMany) {
  EXPECT_EQ(key_order_field("p", {"b", "a"}).value.bytes, "b, a");
  EXPECT_NE(key_order_field("p", {"b, a"}).value.bytes, "b, a") << "one key, not two";
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("layer" + std::to_string(i));
  std::vector<std::string_view> keys(names.begin(), names.end());
  const std::string there = key_order_field("p", keys).value.bytes;
  std::swap(keys[998], keys[999]);
  const std::string swapped = key_order_field("p", keys).value.bytes;
  EXPECT_EQ(there.substr(0, 11), "1000 keys, ");
  EXPECT_NE(there, swapped);
}

}  // namespace
}  // namespace lockstep::worker::opaque_test
