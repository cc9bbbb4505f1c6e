// Fields of users: their values, their joins and their bytes. Joins of random fields by any tree
// are tested in exchange_test.cpp.
#include "naive_exchange.h"
#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/agree/exchange/conflict.h>
#include <lockstep/worker/agree/exchange/decision_json.h>
#include <lockstep/worker/agree/exchange/field.h>

namespace lockstep::worker::field_test {
namespace {

Field text(std::string value, FieldJoin join = FieldJoin::Equal, std::string name = "f") {
  return {{std::move(name), FieldType::Text, join}, {0, std::move(value)}};
}
Field number(std::int64_t value, FieldJoin join, std::string name = "f") {
  return {{std::move(name), FieldType::Int, join}, {value, {}}};
}

FieldCells joined(const std::vector<Field>& ranks) {
  FieldCells out = cells_of({ranks[0]});
  for (std::size_t r = 1; r < ranks.size(); ++r) out = join_fields(out, cells_of({ranks[r]}));
  return out;
}

std::vector<std::string> texts(const FieldCells& cells) {
  std::vector<std::string> out;
  for (const FieldValue& value : cells.at(0).values) out.push_back(value.bytes);
  return out;
}

TEST(Field, MinAndMax_OfText_GoByUnsignedBytes_AShorterOneFirst) {
  const std::vector<Field> low{text("b", FieldJoin::Min), text("ab", FieldJoin::Min),
                               text("\xff", FieldJoin::Min), text("a", FieldJoin::Min)};
  EXPECT_EQ(texts(joined(low)), std::vector<std::string>{"a"});
  const std::vector<Field> high{text("b", FieldJoin::Max), text("\xff", FieldJoin::Max),
                                text("\x7f", FieldJoin::Max)};
  EXPECT_EQ(texts(joined(high)), std::vector<std::string>{"\xff"});
}

TEST(Field, Union_IsInTheOrderOfTheLowestRankThatHasEach) {
  const auto of = [](const char* value) { return text(value, FieldJoin::Union); };
  EXPECT_EQ(texts(joined({of("c"), of("a"), of("c"), of(""), of("a"), of("b")})),
            (std::vector<std::string>{"c", "a", "", "b"}));
}

TEST(Field, UnionAboveTheLimit_IsTooLarge_WhateverWasJoinedFirst) {
  std::vector<Field> ranks;
  for (int r = 0; r < 64; ++r) {
    std::string value(1024, 'x');
    value[0] = static_cast<char>(r);
    ranks.push_back(text(value, FieldJoin::Union));
  }
  FieldCells all = joined(ranks);
  EXPECT_EQ(all[0].values.size(), 64U) << "65,536 bytes are no more than the limit";
  const FieldCells more = cells_of({text("y", FieldJoin::Union)});
  for (const FieldCells& over : {join_fields(all, more), join_fields(more, all)}) {
    EXPECT_TRUE(over[0].too_large);
    EXPECT_TRUE(over[0].values.empty());
    EXPECT_EQ(join_fields(over, more), over);
  }
}

TEST(Field, Error_SaysNameAndLength_FromOneByteTooMany) {
  EXPECT_FALSE(field_error(text(std::string(1024, 'x'))));
  EXPECT_FALSE(field_error(text("")));
  const auto wrong = field_error(text(std::string(1025, 'x'), FieldJoin::Max, "note"));
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->code, Code::BadInput);
  EXPECT_EQ(wrong->source, "note");
  EXPECT_NE(wrong->message.find("note has 1025 bytes"), std::string::npos) << wrong->message;
  EXPECT_TRUE(field_error(text("x", FieldJoin::Max, "")));
}

TEST(Field, Names_ThatAreTaken_AreAnError) {
  const auto error = [](const Inputs& in) { return fields_error(in.build()); };
  EXPECT_FALSE(error(Inputs().integer("n", 1).field("a", 1, FieldJoin::Max)));
  EXPECT_TRUE(error(Inputs().field("a", 1, FieldJoin::Max).field("a", 1, FieldJoin::Max)));
  EXPECT_TRUE(error(Inputs().integer("a", 1).field("a", 1, FieldJoin::Max)));
}

TEST(Field, Absorbs_TheSame_NoLess_NoMore_OrAMember) {
  const auto serves = [](FieldJoin join, std::vector<std::int64_t> entry, std::int64_t own) {
    JoinedField made{number(0, join).spec, {}};
    for (const std::int64_t value : entry) made.values.push_back({value, {}});
    return made.absorbs(number(own, join));
  };
  EXPECT_TRUE(serves(FieldJoin::Equal, {5}, 5));
  EXPECT_FALSE(serves(FieldJoin::Equal, {5}, 4));
  EXPECT_TRUE(serves(FieldJoin::Min, {5}, 6));
  EXPECT_FALSE(serves(FieldJoin::Min, {5}, 4));
  EXPECT_TRUE(serves(FieldJoin::Max, {5}, 4));
  EXPECT_FALSE(serves(FieldJoin::Max, {5}, 6));
  EXPECT_TRUE(serves(FieldJoin::Union, {5, 7}, 7));
  EXPECT_FALSE(serves(FieldJoin::Union, {5, 7}, 6));
  const JoinedField made{number(0, FieldJoin::Max).spec, {{5, {}}}};
  EXPECT_FALSE(made.absorbs(number(5, FieldJoin::Min))) << "another join";
}

TEST(Field, AVectorWithoutFields_HasTheBytesItHadBeforeThereWereAny) {
  const Observation plain = Inputs().tensor("x", {3, 4}).build();
  Inputs more;
  more.tensor("x", {3, 4}).field("a", 1, FieldJoin::Max);
  const Bytes without = list_payload(plain), with = list_payload(more.build());
  EXPECT_EQ(without.size(), 32U + 2 * 8);
  EXPECT_EQ(static_cast<int>(without[0]), 3) << "the version of columns before there were fields";
  EXPECT_EQ(static_cast<int>(without[4]), 0) << "no section";
  ASSERT_GT(with.size(), without.size());
  EXPECT_TRUE(std::equal(without.begin() + 8, without.end(), with.begin() + 8));
  EXPECT_EQ(plain.list->digest(), more.build().list->digest());
}

TEST(Field, Bytes_OfAnyKind_ComeThrough_AndADecisionTellsThem) {
  const std::string raw("\0\xff\x80z", 4);
  Inputs in;
  in.field("raw", std::as_bytes(std::span(raw)), FieldJoin::Union)
      .field("none", "", FieldJoin::Equal)
      .field("on", true, FieldJoin::Min)
      .field("n", 7, FieldJoin::Max);
  const Observation seen = in.build();
  const Decision decision = decide(joint_of({seen, seen}), {});
  ASSERT_NE(decision.field("raw"), nullptr);
  EXPECT_EQ(decision.field("raw")->values, (std::vector<FieldValue>{{0, raw}}));
  EXPECT_EQ(decision.field("else"), nullptr);
  EXPECT_EQ(decision_text(decision),
            " | n = max 7; none = equal \"\"; on = min true; raw = union 0x00ff807a");
  EXPECT_EQ(decision_json(decision),
            R"({"decisions":{},"symbols":{},"fields":{"n":7,"none":"","on":true,)"
            R"("raw":[{"hex":"00ff807a"}]}})");
  EXPECT_EQ(decision_json(decide(joint_of({Inputs().build()}), {})),
            R"({"decisions":{},"symbols":{}})");
}

TEST(Field, ADecisionsDigest_CoversNameTypeJoinAndValues) {
  const auto digest = [](const Inputs& in) { return decide(joint_of({in.build()}), {}).digest(); };
  const auto plain = digest(Inputs().field("a", 1, FieldJoin::Max));
  EXPECT_EQ(plain, digest(Inputs().field("a", 1, FieldJoin::Max)));
  EXPECT_NE(plain, digest(Inputs()));
  EXPECT_NE(plain, digest(Inputs().field("b", 1, FieldJoin::Max)));
  EXPECT_NE(plain, digest(Inputs().field("a", 2, FieldJoin::Max)));
  EXPECT_NE(plain, digest(Inputs().field("a", 1, FieldJoin::Min)));
  EXPECT_NE(plain, digest(Inputs().field("a", true, FieldJoin::Max)));
}

TEST(Field, LongValues_AreCutInMessages_AndStillToldApart) {
  const FieldValue a{0, std::string(1000, 'x') + "a"}, b{0, std::string(1000, 'x') + "b"};
  EXPECT_LT(value_text(FieldType::Text, a).size(), 120U);
  EXPECT_NE(value_text(FieldType::Text, a), value_text(FieldType::Text, b));
  EXPECT_EQ(value_text(FieldType::Int, {-3, {}}), "-3");
  EXPECT_EQ(value_text(FieldType::Text, {0, std::string("a\n\0b", 4)}), R"("a\x0a\x00b")")
      << "one line";
  EXPECT_EQ(value_text(FieldType::Text, {0, "a\\x0a"}), R"("a\\x0a")") << "and another text";
  JoinedField many{number(0, FieldJoin::Union).spec, {}};
  for (int i = 0; i < 8192; ++i) many.values.push_back({i, {}});
  JoinedField other = many;
  other.values.back().number = -1;
  EXPECT_TRUE(joined_text(many).starts_with("union 0, 1, 2, ")) << joined_text(many);
  EXPECT_LT(joined_text(many).size(), 120U);
  EXPECT_NE(joined_text(many), joined_text(other));
  std::string wide = "x";
  for (int i = 0; i < 40; ++i) wide += "\xC3\xA9";
  EXPECT_TRUE(value_text(FieldType::Text, {0, wide}).starts_with("\"" + wide.substr(0, 63) + "\""))
      << "no half of a character";
}

}  // namespace
}  // namespace lockstep::worker::field_test
