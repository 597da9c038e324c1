// M. F. Porter, "An algorithm for suffix stripping", Program 14 (1980), in the dialect of SQLite's
// FTS5. A stem is [C](VC)^m[V]; m is its measure. The dialect: -bli -> -ble and -logi -> -log in
// step 2 (Porter's own later changes), and in the test for "a vowel anywhere" a y counts wherever
// it is not first.
#include <algorithm>
#include <string>
#include <string_view>

#include "text/terms.hpp"

namespace hyrecall::text {
namespace {

bool is_vowel_letter(char c) {
  return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u';
}

// A y is a vowel after a consonant. Bytes beyond ASCII are consonants.
bool is_consonant(char c, bool after_consonant) {
  return !is_vowel_letter(c) && !(after_consonant && c == 'y');
}

int measure(std::string_view stem) {
  int m = 0;
  bool consonant = false;
  for (std::size_t i = 0; i < stem.size(); ++i) {
    bool const before = consonant;
    consonant = is_consonant(stem[i], before);
    if (i > 0 && consonant && !before) ++m;
  }
  return m;
}

bool has_vowel(std::string_view stem) {
  for (std::size_t i = 0; i < stem.size(); ++i)
    if (is_vowel_letter(stem[i]) || (i > 0 && stem[i] == 'y')) return true;
  return false;
}

// *o: the stem ends consonant, vowel, consonant, and the last is not w, x or y.
bool ends_cvc(std::string_view stem) {
  if (stem.empty() || stem.back() == 'w' || stem.back() == 'x' || stem.back() == 'y') return false;
  unsigned pattern = 0;
  bool consonant = false;
  for (char const c : stem) {
    consonant = is_consonant(c, consonant);
    pattern = pattern << 1 | (consonant ? 1u : 0u);
  }
  return (pattern & 7) == 5;
}

struct Rule {
  std::string_view suffix, replacement;
};

// In each table a suffix stands before its own endings, so that the first match is the longest.
constexpr Rule kStep2[] = {
    {"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"}, {"izer", "ize"},
    {"logi", "log"},    {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"}, {"eli", "e"},
    {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},  {"alism", "al"},
    {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"},
    {"biliti", "ble"}};
constexpr Rule kStep3[] = {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
                           {"ical", "ic"},  {"ful", ""},   {"ness", ""}};
constexpr Rule kStep4[] = {{"al", ""},   {"ance", ""}, {"ence", ""}, {"er", ""},    {"ic", ""},
                           {"able", ""}, {"ible", ""}, {"ant", ""},  {"ement", ""}, {"ment", ""},
                           {"ent", ""},  {"ion", ""},  {"ou", ""},   {"ism", ""},   {"ate", ""},
                           {"iti", ""},  {"ous", ""},  {"ive", ""},  {"ize", ""}};

// The first rule whose suffix matches decides: it acts if the stem's measure exceeds `above`, and
// no other is tried.
template <std::size_t N>
void apply(Rule const (&rules)[N], int above, std::string& word) {
  for (Rule const& rule : rules) {
    // A suffix never takes the whole word: some stem must stay.
    if (word.size() <= rule.suffix.size() || !word.ends_with(rule.suffix)) continue;
    std::string_view const stem =
        std::string_view(word).substr(0, word.size() - rule.suffix.size());
    bool const ion_follows = rule.suffix != "ion" || stem.back() == 's' || stem.back() == 't';
    if (ion_follows && measure(stem) > above) {
      word.erase(stem.size());
      word += rule.replacement;
    }
    return;
  }
}

void plurals(std::string& word) {
  if (word.back() != 's' || word[word.size() - 2] == 's') return;
  bool const cuts_two =
      (word.ends_with("sses") && word.size() > 4) || (word.ends_with("ies") && word.size() > 3);
  word.erase(word.size() - (cuts_two ? 2 : 1));
}

// After -ed or -ing is gone: conflat(ed) -> conflate, hopp(ing) -> hop, fil(ing) -> file.
void repair(std::string& word) {
  if (word.size() > 2 && (word.ends_with("at") || word.ends_with("bl") || word.ends_with("iz"))) {
    word += 'e';
    return;
  }
  char const last = word.back();
  bool const doubled = word.size() > 1 && word[word.size() - 2] == last;
  if (doubled && !is_vowel_letter(last) && last != 'l' && last != 's' && last != 'z')
    word.pop_back();
  else if (measure(word) == 1 && ends_cvc(word))
    word += 'e';
}

void past_and_gerund(std::string& word) {
  std::string_view const all = word;
  if (word.ends_with("eed") && word.size() > 3) {
    if (measure(all.substr(0, all.size() - 3)) > 0) word.pop_back();
    return;
  }
  for (std::string_view const suffix : {"ed", "ing"}) {
    if (word.size() <= suffix.size() || !word.ends_with(suffix)) continue;
    if (!has_vowel(all.substr(0, all.size() - suffix.size()))) return;
    word.erase(word.size() - suffix.size());
    repair(word);
    return;
  }
}

}  // namespace

void porter_stem(std::string& word) {
  if (word.size() < 3 || word.size() > 64) return;
  plurals(word);
  past_and_gerund(word);
  if (word.back() == 'y' && has_vowel(std::string_view(word).substr(0, word.size() - 1)))
    word.back() = 'i';
  apply(kStep2, 0, word);
  apply(kStep3, 0, word);
  apply(kStep4, 1, word);
  if (word.back() == 'e') {
    std::string_view const stem = std::string_view(word).substr(0, word.size() - 1);
    int const m = measure(stem);
    if (m > 1 || (m == 1 && !ends_cvc(stem))) word.pop_back();
  }
  if (word.size() > 1 && word.ends_with("ll") &&
      measure(std::string_view(word).substr(0, word.size() - 1)) > 1)
    word.pop_back();
}

}  // namespace hyrecall::text
