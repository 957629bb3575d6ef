//! Certificates for servers and clients, issued by the test's own authorities.

use openssl::asn1::{Asn1Integer, Asn1Time};
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::symm::Cipher;
use openssl::x509::extension::{BasicConstraints, KeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509NameBuilder};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// An authority that signs certificates.
pub struct Authority {
    certificate: X509,
    key: PKey<Private>,
}

/// A certificate and its key, as PEM.
pub struct Issued {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl Issued {
    /// Puts a password on the key.
    pub fn lock(&mut self, password: &str) {
        let key = PKey::private_key_from_pem(&self.key).unwrap();
        let cipher = Cipher::aes_256_cbc();
        self.key = key.private_key_to_pem_pkcs8_passphrase(cipher, password.as_bytes()).unwrap();
    }
}

/// The contents of a certificate.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The common name: for a client the role's name.
    pub name: &'a str,
    /// Host names and IP addresses.
    pub hosts: &'a [&'a str],
    /// Days from now until it ends; negative if it has ended.
    pub days_left: i64,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let key = new_key();
        let mut builder = begin(name, &key, 30);
        builder.set_issuer_name(&subject(name)).unwrap();
        let extension = BasicConstraints::new().critical().ca().build().unwrap();
        builder.append_extension(extension).unwrap();
        let usage = KeyUsage::new().critical().key_cert_sign().crl_sign().build().unwrap();
        builder.append_extension(usage).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        Authority { certificate: builder.build(), key }
    }

    /// The certificate for those who trust this authority.
    pub fn pem(&self) -> Vec<u8> {
        self.certificate.to_pem().unwrap()
    }

    pub fn issue(&self, wanted: Wanted<'_>) -> Issued {
        let key = new_key();
        let mut builder = begin(wanted.name, &key, wanted.days_left);
        builder.set_issuer_name(self.certificate.subject_name()).unwrap();
        if !wanted.hosts.is_empty() {
            let mut names = SubjectAlternativeName::new();
            for host in wanted.hosts {
                match host.parse::<std::net::IpAddr>() {
                    Ok(_) => names.ip(host),
                    Err(_) => names.dns(host),
                };
            }
            let context = builder.x509v3_context(Some(&self.certificate), None);
            let extension = names.build(&context).unwrap();
            builder.append_extension(extension).unwrap();
        }
        builder.sign(&self.key, MessageDigest::sha256()).unwrap();
        Issued {
            certificate: builder.build().to_pem().unwrap(),
            key: key.private_key_to_pem_pkcs8().unwrap(),
        }
    }
}

fn new_key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn begin(name: &str, key: &PKey<Private>, days_left: i64) -> X509Builder {
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    let mut serial = BigNum::new().unwrap();
    serial.rand(120, MsbOption::MAYBE_ZERO, false).unwrap();
    builder.set_serial_number(&Asn1Integer::from_bn(&serial).unwrap()).unwrap();
    builder.set_subject_name(&subject(name)).unwrap();
    builder.set_pubkey(key).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let at =
        |days: i64| Asn1Time::from_unix(now.as_secs().cast_signed() + days * DAY_SECONDS).unwrap();
    builder.set_not_before(&at(days_left.min(0) - 2)).unwrap();
    builder.set_not_after(&at(days_left)).unwrap();
    builder
}

fn subject(name: &str) -> openssl::x509::X509Name {
    let mut subject = X509NameBuilder::new().unwrap();
    subject.append_entry_by_nid(Nid::COMMONNAME, name).unwrap();
    subject.build()
}
