//! How the records of an input become pages: by what is configured, and by what its first record shows.

use super::read_error::ReadError;
use crate::document::FetchTime;
use crate::wire::{
    Fallback, FieldMap, Limits, MappedRecord, Part, Preset, Record, RecordLayout, TimeFrom, UrlFrom, field_names,
};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// What is configured for the records of all inputs.
#[derive(Clone, Default)]
pub(super) struct PageSettings {
    pub(super) fields: FieldMap,
    pub(super) url_from: Option<UrlFrom>,
    pub(super) fetched_at: Option<TimeFrom>,
    pub(super) sweep: Option<String>,
    /// Counts the pages whose time is not their own.
    pub(super) n_undated: Arc<AtomicU64>,
    /// The presets that were recognised and reported.
    pub(super) reported: Arc<Mutex<BTreeSet<Preset>>>,
}

/// How the records of one input become pages.
pub(super) struct InputLayout {
    name: Arc<str>,
    /// When the input was last changed, if it is a file.
    file_time: Option<FetchTime>,
    settings: PageSettings,
    layout: Arc<RecordLayout>,
    /// Whether the first JSON object may still show a preset.
    is_undecided: bool,
}

impl InputLayout {
    pub(super) fn new(name: Arc<str>, file_time: Option<FetchTime>, settings: PageSettings) -> Self {
        let is_undecided = settings.fields.may_be_recognised();
        let layout = Arc::new(layout_of(&settings.fields, &name, file_time, &settings));
        InputLayout { name, file_time, settings, layout, is_undecided }
    }

    /// Fails if records are to have the time of a file, and the input is none.
    pub(super) fn check(&self) -> Result<(), ReadError> {
        if self.settings.fetched_at == Some(TimeFrom::File) && self.file_time.is_none() {
            let why = "it is no file, so that it has no file time; give --fetched-at a time, or name a file";
            return Err(ReadError::Unusable(why.into()));
        }
        Ok(())
    }

    /// Whether the next record may show a preset: it must be decoded, even if it was read before.
    pub(super) fn is_undecided(&self) -> bool {
        self.is_undecided
    }

    /// Where the parts of a page are.
    pub(super) fn fields(&self) -> &FieldMap {
        &self.layout.fields
    }

    pub(super) fn fallback(&self) -> &Fallback {
        &self.layout.fallback
    }

    /// Settles the layout of records that are JSON pages whatever is configured.
    pub(super) fn settle_as_page(&mut self) {
        self.is_undecided = false;
        let fields = FieldMap { preset: Preset::Page, ..FieldMap::default() };
        self.layout = Arc::new(RecordLayout { fields, ..RecordLayout::clone(&self.layout) });
    }

    /// The time of pages that have none.
    pub(super) fn fetched_at(&self) -> Option<FetchTime> {
        self.layout.fallback.fetched_at
    }

    /// The time of the file.
    pub(super) fn file_time(&self) -> Option<FetchTime> {
        self.file_time
    }

    /// Settles the layout of a table by the names of its columns.
    ///
    /// # Errors
    /// [`ReadError::Unusable`] if its rows can be no pages.
    pub(super) fn settle(&mut self, columns: &[String]) -> Result<(), ReadError> {
        self.recognise_columns(columns.iter().map(String::as_str));
        let layout = Arc::make_mut(&mut self.layout);
        layout.is_table = true;
        layout.fields.check_columns(columns, &layout.fallback).map_err(ReadError::Unusable)
    }

    /// Turns a JSON record into one that knows its layout. The first JSON object settles the layout.
    pub(super) fn apply(&mut self, record: Record, number: i64, limits: &Limits) -> Record {
        let Record::Json(json) = record else { return record };
        if self.is_undecided
            && let Some(names) = field_names(&json, limits)
        {
            self.recognise(&names);
        }
        if self.layout.is_plain() {
            return Record::Json(json);
        }
        Record::Mapped(Box::new(MappedRecord { json, number, layout: Arc::clone(&self.layout) }))
    }

    /// Recognises the preset of a table by the names of its columns, if nothing has settled the layout yet. Returns whether it
    /// has one.
    pub(super) fn recognise_columns<'c>(&mut self, columns: impl Iterator<Item = &'c str>) -> bool {
        self.is_undecided && self.recognise(&columns.map(str::to_ascii_lowercase).collect())
    }

    /// Returns whether the names are those of a preset.
    fn recognise(&mut self, names: &BTreeSet<String>) -> bool {
        self.is_undecided = false;
        let Some(preset) = Preset::recognise(names) else { return false };
        let fields = FieldMap { preset, ..self.settings.fields.clone() };
        self.layout = Arc::new(layout_of(&fields, &self.name, self.file_time, &self.settings));
        let mut reported = self.settings.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.insert(preset) {
            let names = names.iter().take(12).map(String::as_str).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                "{}: the first record has the fields {names}, so it is read with --fields {preset}; choose another preset \
                 with --fields, or --fields page for none",
                self.name
            );
        }
        true
    }
}

/// The layout of an input's records. If no record of a preset has a URL or a time, the record's place and the file's time
/// stand in.
fn layout_of(fields: &FieldMap, name: &str, file_time: Option<FetchTime>, settings: &PageSettings) -> RecordLayout {
    let mut layout = RecordLayout { fields: fields.clone(), ..RecordLayout::default() };
    layout.set_url_from(settings.url_from.or(fields.lacks(Part::Url).then_some(UrlFrom::Record)), name);
    layout.fallback.fetched_at = match settings.fetched_at {
        Some(TimeFrom::Time(time)) => Some(time),
        Some(TimeFrom::File) => file_time,
        None => file_time.filter(|_| fields.lacks(Part::FetchedAt)),
    };
    layout.fallback.sweep.clone_from(&settings.sweep);
    layout.fallback.n_undated = Arc::clone(&settings.n_undated);
    layout
}
