//! Text to words: bytes of plain text a second, by script.

#![expect(clippy::expect_used, reason = "a benchmark without its texts has nothing to measure")]

mod corpus;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lookalike::document::append_words;
use std::hint::black_box;

/// The beginning of the Universal Declaration of Human Rights, article 1.
const RUSSIAN: &str = "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и \
    совестью и должны поступать в отношении друг друга в духе братства. ";
const HINDI: &str = "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। \
    उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए। ";
const VIETNAMESE: &str = "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền. Mọi con người đều \
    được tạo hoá ban cho lý trí và lương tâm và cần phải đối xử với nhau trong tình bằng hữu. ";
const KOREAN: &str = "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 \
    부여받았으며 서로 형제애의 정신으로 행동하여야 한다. ";

fn words(c: &mut Criterion) {
    let mut group = c.benchmark_group("words");
    let decomposed = unicode_normalization::UnicodeNormalization::nfd(VIETNAMESE).collect::<String>();
    let corpora = [
        ("english", corpus::english()),
        ("cjk", corpus::texts("manual-cjk.jsonl.zst")),
        ("russian", vec![RUSSIAN.repeat(2000)]),
        ("korean", vec![KOREAN.repeat(2000)]),
        ("hindi", vec![HINDI.repeat(2000)]),
        ("vietnamese", vec![VIETNAMESE.repeat(2000)]),
        ("vietnamese decomposed", vec![decomposed.repeat(2000)]),
    ];
    for (name, texts) in corpora {
        group.throughput(Throughput::Bytes(texts.iter().map(|text| text.len() as u64).sum()));
        let mut out = String::new();
        group.bench_function(name, |b| {
            b.iter(|| {
                for text in &texts {
                    out.clear();
                    black_box(append_words(black_box(text), &mut out));
                }
            })
        });
    }
    group.finish();
}

criterion_group!(benches, words);
criterion_main!(benches);
