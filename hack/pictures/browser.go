// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// browsers are the names of the program in packages of distributions.
var browsers = []string{"chromium", "chromium-browser", "google-chrome"}

func findBrowser() (string, error) {
	for _, name := range browsers {
		if file, err := exec.LookPath(name); err == nil {
			return file, nil
		}
	}

	return "", fmt.Errorf("none of %s is in PATH: install Chromium, on Debian with apt-get install --no-install-recommends chromium fonts-liberation", strings.Join(browsers, ", "))
}

// screenshot draws a page with the browser, and writes the picture in PNG.
func screenshot(ctx context.Context, browser string, page *Page, picture string) error {
	directory, err := os.MkdirTemp("", "browser")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()

	file := filepath.Join(directory, "page.html")
	if err := write(file, page.Write); err != nil {
		return err
	}

	shot := filepath.Join(directory, "shot.png")
	// Without the sandbox, since root cannot use it. The pages contain no script and refer to no other file.
	command := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
		"--user-data-dir="+filepath.Join(directory, "profile"), fmt.Sprintf("--window-size=%d,%d", page.Width, page.Height), "--screenshot="+shot, "file://"+file)

	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", browser, err, output)
	}

	content, err := os.ReadFile(shot)
	if err != nil {
		return err
	}

	return compress(content, picture)
}

// compress writes a picture with the best compression, without the metadata of the browser, and with a palette of its 256 most frequent colors.
// The pictures have few colors. The others are from the smoothing of texts and lines.
func compress(content []byte, file string) error {
	picture, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		return err
	}

	return write(file, func(w io.Writer) error {
		return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(w, withPalette(picture))
	})
}

func withPalette(picture image.Image) *image.Paletted {
	bounds := picture.Bounds()
	frequency := map[color.RGBA]int{}

	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			frequency[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}

	colors := slices.SortedFunc(maps.Keys(frequency), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(frequency[b], frequency[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})

	var palette color.Palette
	for _, c := range colors[:min(len(colors), 256)] {
		palette = append(palette, c)
	}

	nearest := map[color.RGBA]uint8{}
	for _, c := range colors {
		nearest[c] = uint8(palette.Index(c)) // #nosec G115 -- at most 256 colors
	}

	result := image.NewPaletted(bounds, palette)

	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			result.SetColorIndex(x, y, nearest[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)])
		}
	}

	return result
}

// write creates a file with the content that a function writes.
func write(file string, content func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}

	var buffer bytes.Buffer
	if err := content(&buffer); err != nil {
		return err
	}

	return os.WriteFile(file, buffer.Bytes(), 0o644)
}
