//! The user-id of HTTP Basic (RFC 7617).

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::form;
use crate::request::{Occurs, Request};
use crate::verdict::SubjectFault;

const SCHEME: &[u8] = b"basic";

/// Some clients leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The user-id of a request, escapes resolved; `None` where it presents nothing by HTTP Basic.
///
/// OAuth clients write it as in a form (RFC 6749, section 2.3.1), others as it is: either spelling is the same
/// subject.
///
/// # Errors
/// The header is there twice, or what it says is not what a user-id, a colon and a password are encoded to.
pub(super) fn user_id(request: &Request) -> Result<Option<Vec<u8>>, SubjectFault> {
    let value = match request.occurs("authorization") {
        Occurs::Never => return Ok(None),
        Occurs::Doubled => return Err(SubjectFault::Basic),
        Occurs::Once(value) => value,
    };
    let Some(token) = of_scheme(value) else {
        // Envoy joins values with a comma, and a server may take any of them.
        let mut parts = value.split(|b| *b == b',').map(<[u8]>::trim_ascii);
        return match parts.any(|part| of_scheme(part).is_some()) {
            true => Err(SubjectFault::Basic),
            false => Ok(None),
        };
    };
    // Without the space some server may understand it, but none has to.
    let token = token.strip_prefix(b" ").ok_or(SubjectFault::Basic)?;
    let decoded = BASE64.decode(token.trim_ascii());
    let decoded = decoded.map_err(|_| SubjectFault::Basic)?;
    let colon = decoded.iter().position(|b| *b == b':');
    let user_id = colon.and_then(|colon| decoded.get(..colon));
    let user_id = user_id.ok_or(SubjectFault::Basic)?;
    if user_id.iter().any(u8::is_ascii_control) {
        return Err(SubjectFault::Basic);
    }
    Ok(Some(form::decoded(user_id).into_owned()))
}

/// What follows the scheme's name, if it is this scheme.
fn of_scheme(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(rest)
}
