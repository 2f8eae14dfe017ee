//! The properties of the fuzz targets for inputs of a fixed generator: a minute of fuzzing that is the same
//! everywhere.

#[path = "../../fuzz/properties.rs"]
mod checks;

/// How many inputs each property sees.
const N_INPUTS: u64 = 20_000;

/// The most pieces of an input.
const N_PIECES_MAX: u64 = 24;

/// The same numbers for the same seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Calls `property` with the pieces in random order, mixed with random bytes and characters.
fn check(property: fn(&[u8]), pieces: &[&[u8]]) {
    for seed in 0..N_INPUTS {
        let mut numbers = Numbers(seed);
        // The first byte often selects a variant.
        let mut input = vec![numbers.next() as u8];
        for _ in 0..numbers.below(N_PIECES_MAX) {
            match numbers.below(8) {
                0 => input.push(numbers.next() as u8),
                1 => input.extend(char::from_u32(numbers.below(0x3000) as u32).unwrap_or(' ').to_string().bytes()),
                2 => input.extend(numbers.next().to_le_bytes()),
                3 => input.extend(vec![input[0]; numbers.below(40) as usize]),
                _ => input.extend(pieces[numbers.below(pieces.len() as u64) as usize]),
            }
        }
        property(&input);
        property(&input[1..]);
    }
}

#[test]
fn decode() {
    let pieces: &[&[u8]] = &[
        b"<meta charset=",
        b"<meta http-equiv=content-type content='text/html; charset=",
        b"utf-16",
        b"koi8-r",
        b"big5",
        b"'>",
        b"<!--",
        b"-->",
        b"<script>",
        b"</script>",
        b"<?xml encoding='",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xfe\xff",
        b"<\0h\0",
        b"\x1b$B",
        b"\xe4\xb8\xad",
        b"\xd6\xd0\xce\xc4",
        b"\x93\xfa\x96\x7b",
        b"caf\xe9",
        b"plain ",
    ];
    check(checks::decode, pieces);
}

#[test]
fn html() {
    let pieces: &[&[u8]] = &[
        b"<p>",
        b"</p>",
        b"<b",
        b"<a b='",
        b"'",
        b"\"",
        b">",
        b"/>",
        b"=",
        b"<!--",
        b"-->",
        b"--!>",
        b"<script>",
        b"</script>",
        b"<style>",
        b"</style>",
        b"<title>",
        b"</title>",
        b"<textarea>",
        b"<template>",
        b"</template>",
        b"<svg>",
        b"</svg>",
        b"<mtext>",
        b"<desc>",
        b"<![CDATA[",
        b"]]>",
        b"<plaintext>",
        b"&amp",
        b"&nGt;",
        b"&#0;",
        b"&#x",
        b"\r\n",
        b"\r",
        b"\0",
        b"text ",
    ];
    check(checks::html, pieces);
}

#[test]
fn words() {
    let pieces: &[&[u8]] = &[
        b"A rose ",
        b"is a rose, is a longer stretch of ASCII. ",
        b" ",
        b"X",
        "é".as_bytes(),
        "\u{301}".as_bytes(),
        "\u{323}\u{307}".as_bytes(),
        "\u{344}".as_bytes(),
        "\u{fb2c}".as_bytes(),
        "\u{1d160}".as_bytes(),
        "\u{1100}\u{1161}".as_bytes(),
        "\u{11a8}".as_bytes(),
        "漢字".as_bytes(),
        "ｶﾞ".as_bytes(),
        "\u{200b}".as_bytes(),
        "\u{ad}".as_bytes(),
        "İ".as_bytes(),
        "สวัสดี".as_bytes(),
    ];
    check(checks::words, pieces);
}

#[test]
fn sketch_codec() {
    let pieces: &[&[u8]] = &[
        &[0],
        &[1],
        &[2],
        &[6],
        &[40],
        &[0xff; 8],
        &[0; 8],
        &[2, 0, 2, 40, 5, 7],
        &[3, 1, 0, 0, 0, 0, 0, 0],
        &[3, 2, 6, 0, 0, 0, 0, 0, 0, 0, 1],
    ];
    check(checks::sketch_codec, pieces);
}

#[test]
fn page_json() {
    let pieces: &[&[u8]] = &[
        b"{",
        b"}",
        b",",
        br#"{"url":"http://a/","fetched_at":"2020-01-01T00:00:00Z","#,
        br#""url":"http://b/""#,
        br#""fetched_at":"+999999-01-01T00:00:00Z""#,
        br#""sweep":"s""#,
        br#""sweep":"much too long""#,
        br#""body":"x"}"#,
        br#""body":null}"#,
        br#""body_base64":"6Q=="}"#,
        br#""text":"a b"}"#,
        br#""features":["a","b"]}"#,
        br#""features":["#,
        br#""http_status":"#,
        br#""redirect_to":"../b"}"#,
        b"301,",
        br#""content_type":"text/html; charset=big5","#,
        b"404",
        b"1e400",
        b"\"",
        b"[",
        b"]",
    ];
    check(checks::page_json, pieces);
}
