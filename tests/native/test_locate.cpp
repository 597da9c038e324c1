// From keys to documents, against a look at every document of random tables.
#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "engine/scope/locate.hpp"
#include "native/check.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {
namespace {

struct Wanted {
  std::vector<std::int64_t> keys;
  std::vector<std::string> cells;  // of each
  KeyColumn column;
  std::vector<CellPart> parts;
};

// Keys of documents, living and dead, and keys of none; in the cell of theirs, or in another.
Wanted random_wanted(Rng& rng, World const& world, bool has_text_keys) {
  Wanted out;
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) {
    Doc const& doc = world.docs[rng.below(world.docs.size())];
    out.keys.push_back(rng.below(5) == 0 ? 5000 + i : doc.key);
    out.cells.push_back(rng.below(5) == 0 ? cell_name(rng.below(8)) : doc.cell);
    names.push_back(key_name(out.keys.back()));
  }
  out.column = has_text_keys ? KeyColumn(column_of(names)) : KeyColumn(ints_of(out.keys));
  out.parts = {column_of(out.cells)};
  return out;
}

World small_world(Rng& rng, bool has_text_keys) {
  WorldOptions options;
  options.max_rows = 60;
  options.n_keys = 50;
  options.has_text_keys = has_text_keys;
  return random_world(rng, options);
}

TEST(locate_rows_finds_the_living_document_of_each_cell_and_key) {
  Rng rng(311);
  for (int round = 0; round < 60; ++round) {
    bool const has_text_keys = round % 2 == 0;
    World const world = small_world(rng, has_text_keys);
    Wanted const wanted = random_wanted(rng, world, has_text_keys);
    auto const found = locate_rows(world.snapshot, wanted.parts, wanted.column);
    CHECK_EQ(found.size(), wanted.keys.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      DocRef expected = kNowhere;
      for (Doc const& doc : world.docs) {
        if (doc.is_live && doc.key == wanted.keys[i] && doc.cell == wanted.cells[i])
          expected = {doc.segment, doc.row};
      }
      CHECK(found[i] == expected);
    }
  }
}

TEST(locate_keys_finds_the_living_documents_of_each_keys_scope_and_no_others) {
  Rng rng(312);
  for (int round = 0; round < 60; ++round) {
    bool const has_text_keys = round % 2 == 0;
    World const world = small_world(rng, has_text_keys);
    Wanted const wanted = random_wanted(rng, world, has_text_keys);
    Asked const asked = random_asked(rng, 5, wanted.keys.size(), 3, 1);
    BatchRequest const& request = asked.request;
    auto found = locate_keys(world.snapshot, wanted.column, request.scopes, request.scope_of);
    std::vector<DocRef> expected;
    for (std::size_t i = 0; i < wanted.keys.size(); ++i) {
      for (Doc const& doc : world.docs) {
        if (doc.key == wanted.keys[i] && asked.in_scope(i, doc))
          expected.push_back({doc.segment, doc.row});
      }
    }
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    CHECK(found == expected);
  }
}

TEST(locate_visible_finds_what_the_query_of_a_key_may_see_and_no_others) {
  Rng rng(313);
  for (int round = 0; round < 60; ++round) {
    bool const has_text_keys = round % 2 == 0;
    World const world = small_world(rng, has_text_keys);
    Wanted const wanted = random_wanted(rng, world, has_text_keys);
    Asked const asked = random_asked(rng, 5, 6, 3, 1);
    ResolvedScopes const scopes = resolve_scopes(world.snapshot, asked.request);
    QueryGroups const groups(asked.request);
    Audience const audience(world.snapshot, asked.request, scopes, groups);
    std::vector<std::uint32_t> query_of;
    for (std::size_t i = 0; i < wanted.keys.size(); ++i)
      query_of.push_back(rng.below(std::uint32_t{6}));
    std::vector<std::pair<std::size_t, DocRef>> found, expected;
    for (LocatedDoc const& one :
         locate_visible(world.snapshot, asked.request, scopes, audience, wanted.column, query_of)) {
      CHECK(found.empty() || found.back().first <= one.key);
      found.emplace_back(one.key, one.doc);
    }
    for (std::size_t i = 0; i < wanted.keys.size(); ++i) {
      for (Doc const& doc : world.docs) {
        if (doc.key == wanted.keys[i] && asked.sees(query_of[i], doc))
          expected.emplace_back(i, DocRef{doc.segment, doc.row});
      }
    }
    std::sort(found.begin(), found.end());
    CHECK(found == expected);
  }
}

TEST(locate_refuses_keys_without_a_query_or_of_an_unknown_one) {
  Rng rng(314);
  World const world = small_world(rng, false);
  Asked const asked = random_asked(rng, 5, 2, 1, 1);
  ResolvedScopes const scopes = resolve_scopes(world.snapshot, asked.request);
  QueryGroups const groups(asked.request);
  Audience const audience(world.snapshot, asked.request, scopes, groups);
  for (std::vector<std::uint32_t> const& query_of :
       {std::vector<std::uint32_t>{0}, std::vector<std::uint32_t>{0, 2}}) {
    bool is_refused = false;
    try {
      locate_visible(world.snapshot, asked.request, scopes, audience,
                     ints_of(std::vector<std::int64_t>{1, 2}), query_of);
    } catch (Error const&) {
      is_refused = true;
    }
    CHECK(is_refused);
  }
}

}  // namespace
}  // namespace hyrecall::testing
