#include "text/endings.hpp"

#include <algorithm>
#include <set>

namespace hyrecall::text {
namespace {

// Endings that stemmers remove, of many languages together: an ending of another language makes a
// word that does not exist, whose stem mostly begins with the prefix and so adds nothing.
constexpr std::string_view kEndings =
    // English
    "s es ed edly er ers est ing ings ingly ly ness nesses ment ments al ally ality ation ations "
    "ational ator ators ative ize izes ized izer izing ization izations able ably ability ible "
    "ibly "
    "ibility ful fully fulness ous ously ousness ive ively iveness ivity ic ical ically icity ism "
    "ist ists istic ance ances ence ences ancy ency ant ent ion ions ity ities ies y e less lessly "
    "ogy ogies ate ates ated ating "
    // German, Dutch, Scandinavian
    "en em ern et ung ungen lich liche lichen licher keit keiten heit heiten ig ige igen iger isch "
    "ische ischen isches end ende st ste sten heid heden lijk lijke erna ar arna or orna an ane "
    "ene "
    "erne ade ande het heten else elsen ets eg ege atie aties baar teit tje tjes el "
    // French, Spanish, Portuguese, Italian, Catalan, Romanian
    "a as o os i ions ons aux eaux x ez ais ait aient ant ante antes ement ements é ée ées és eur "
    "eurs euse "
    "euses eux if ifs ives ité ités ique iques isme ismes iste istes ir ire aire aires amment "
    "emment ar ando iendo endo indo ado ada ados adas ido ida idos idas ción ciones mente amiento "
    "amientos imiento imientos aba aban aron amos emos imos dad dades ción sión siones ível ável "
    "ção ções mento mentos dade dades are ere ato ata ati ate ito ita iti ite zione zioni amento "
    "amenti imento imenti abile abili ista iste isti oso osa osi ose ment ments itat itats ul ului "
    "ilor elor ère èrent ancia encia ência ância ància ència tivo tiva ándose iéndose ono ssero "
    "nno "
    "bile gli sse bbe ute uta nd ză ști şti ște şte scă asă "
    // Finnish, Estonian, Hungarian, Turkish
    "n t ä ssa ssä sta stä lla llä lta ltä lle ksi na nä in ien inen iset issa issä ista istä k ok "
    "ek ök ban ben nak nek val vel ról ről hoz hez ban ság ség lar ler lık lik luk lük ın un ün da "
    "de dan den lar ları leri nin nın dır dir mme mmin mpi akse el ől ól ál él yle yla sini uz ız "
    "ydı "
    // Basque, Czech, Polish, Lithuanian, Indonesian, Irish
    "tu rik ch ech ích ých cie iom ów sza szy śmy usi nya lah each eacht eachta eadh dh mh áil "
    "íochta "
    // Russian, Serbian, Greek
    "а я о е и ы у ю ой ей ом ем ами ями ах ях ов ев ий ый ая ое ие ые ого его ому ему ть л ла ло "
    "ли ет ут ют ит ат ят ешь ишь ение ения ению ением ений ость ости остью ать ять еть ить ал ала "
    "али ся сь ск ский ская ское ские ος οι ου ων ους α ας ες η ης ο ω ει εις ουμε ετε ουν "
    "αι ται νται ταν νταν ντας ηκε ηκαν θηκε θηκαν ών ός ύς τερο τερου "
    // Armenian, Hindi, Nepali, Tamil, Persian, Yiddish
    "ում ումը եր երը երի երին երից ուն ված ություն ությունը ության ով վում ել ելու վել ին "
    "कर ियों ियां ियाँ मा को का ले लाई हरू हरूको हरूमा हरूलाई கள் களை களில் ங்கள் ங்களை ங்களில் "
    "ین ان ات ای یی انی های انه یان تر یم ها گان ام یت "
    "דיק דיקע דיקער דיקן דיקס ענדיק ענדיקע ענדיקן סט סטו ים יש ישן לעך ות טן";

std::vector<std::string_view> make_endings() {
  std::set<std::string_view> out;
  for (std::size_t begin = 0; begin < kEndings.size();) {
    std::size_t const end = std::min(kEndings.find(' ', begin), kEndings.size());
    if (end > begin) out.insert(kEndings.substr(begin, end - begin));
    begin = end + 1;
  }
  return {out.begin(), out.end()};
}

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

}  // namespace

void complete_word(std::string_view prefix, std::vector<std::string>& out) {
  static std::vector<std::string_view> const endings = make_endings();
  std::set<std::string_view> rests{""};
  for (std::string_view const ending : endings) {
    for (std::size_t at = 0; at < ending.size(); ++at) {
      if (begins_character(ending[at]) && prefix.ends_with(ending.substr(0, at)))
        rests.insert(ending.substr(at));
    }
  }
  for (std::string_view const rest : rests) out.push_back(std::string(prefix).append(rest));
}

}  // namespace hyrecall::text
