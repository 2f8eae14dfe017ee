//! The signature of a delivery: HMAC-SHA256 (RFC 2104) of its body.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Signs deliveries with a secret.
pub(super) struct Signer(Hmac<Sha256>);

impl Signer {
    /// A signer; what is wrong with the secret, where it is none.
    pub fn new(secret: &[u8]) -> Result<Self, String> {
        if secret.is_empty() {
            return Err("it is empty".into());
        }
        Hmac::new_from_slice(secret).map(Signer).map_err(|error| error.to_string())
    }

    /// The signature as hexadecimal digits.
    pub fn signature(&self, body: &[u8]) -> String {
        let signature = self.0.clone().chain_update(body).finalize().into_bytes();
        signature.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test cases 1, 2 and 6 of RFC 4231.
    #[test]
    fn signatures_are_those_of_the_standard() {
        for (secret, body, expected) in [
            (&[0x0b; 20][..], "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                "Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            let signer = Signer::new(secret).expect("a secret");
            assert_eq!(signer.signature(body.as_bytes()), expected);
        }
        assert!(Signer::new(b"").is_err());
    }
}
